// Package kubelet holds the tests that drive the real accelmux programs with the
// device manager and the DRA manager of a real kubelet, of one of several releases. It is
// a module of its own because its program manager needs k8s.io/kubernetes.
//
//	manager/      kubelet's device half, as a program
//	manager/wire  what is said to it, a link to test/devicemanager/wire
//	realkubelet/  kubelet for the tests: such a process, and what is around it
//	agent/        the accelmux programs, as processes
//
// Run it with `make test-kubelet`, or here with `go test -count=1 .` if ACCELMUX_BIN names the
// directory of the built accelmux programs and KUBELET_PROGRAM the built program manager.
package kubelet
