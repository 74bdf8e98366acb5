// Package kubelet holds the tests that drive the real accelmux programs with the
// device manager of a real kubelet. It is a module of its own because it needs
// k8s.io/kubernetes, which nothing else here does.
//
//	realkubelet/  kubelet's device half, in the test process
//	agent/        the accelmux programs, as processes
//
// Run it with `make test-kubelet`, or here with `go test ./...`; the first build
// takes minutes. The programs are built from the module two directories up,
// unless ACCELMUX_BIN names a directory that has them.
package kubelet
