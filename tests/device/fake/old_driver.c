// A driver that has nothing but its version: its functions came later.
int cuDriverGetVersion(int* v) {
  *v = 12000;
  return 0;
}
