// No library of NVIDIA's at all, under the name of one.
int sibling(void) { return 1; }
