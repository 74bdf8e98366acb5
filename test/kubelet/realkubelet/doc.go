// Package realkubelet drives the device half of a real kubelet, of one of several
// releases: a process of its own (the program ../manager), started, stopped and
// killed as kubelet is. It stands for what is around kubelet on a node: it knows the
// pods, as the API server does, and which containers run, as the container runtime
// does, and tells each new process.
//
// KUBELET names the release; without it the newest one is taken. KUBELET_PROGRAM
// names a program that is built already.
package realkubelet
