// Package nvml is a stand-in for NVIDIA's management library: a
// libnvidia-ml.so.1 of our own, in C, for tests of the unmodified NVIDIA
// backend on machines without a GPU.
//
// A file says what the library answers, call by call, and it is read again
// whenever it changes: tests rewrite it while the backend runs. README.md has
// its format. The package builds the library with the C compiler, and writes
// the file; it needs nothing of NVIDIA's.
package nvml
