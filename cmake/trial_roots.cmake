# What a verdict and a time of a candidate depend on besides its kernel: the sources that judge and time it, and those that
# run it as a step. Paths are below src/; a name with * is a pattern.

# Where includes are followed.
set(PERI_TRIAL_MODULES bench exec runtime tune)
# Judge, samples, timing loops, and the session that runs a step. The executor of the kernel comes to them.
set(PERI_TRIAL_ROOTS tune/judge.cpp tune/trial.cpp tune/samples.cpp bench/measure.cpp runtime/session*.cpp runtime/guards.cpp)
# What is only asked which candidates there are, brings them to a worker or keeps results: their headers give types, and
# their sources change no result.
set(PERI_TRIAL_STOPS tune/cache tune/cache_keys tune/candidates tune/contained_judge tune/crossing tune/resolved tune/tuner tune/wire
    tune/worker bench/peaks)
# What times copies between host and device.
set(PERI_CROSSING_ROOTS tune/crossing.cpp bench/measure.cpp)
