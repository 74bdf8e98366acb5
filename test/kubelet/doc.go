// Package kubelet holds the tests that drive the real accelmux programs with the
// device manager of a real kubelet, of one of several releases. It is a module of its
// own because it needs k8s.io/kubernetes, which nothing else here does.
//
//	manager/      kubelet's device half, as a program
//	wire/         what is said to it
//	realkubelet/  kubelet for the tests: such a process, and what is around it
//	agent/        the accelmux programs, as processes
//	matrix/       all releases, and the table of README.md
//
// Run it with `make test-kubelet`, or here with `go test -count=1 ./...`; the first build
// takes minutes. The programs are built from the module two directories up,
// unless ACCELMUX_BIN names a directory that has them; KUBELET is the release, and
// KUBELET_PROGRAM the program manager if it is built already.
package kubelet
