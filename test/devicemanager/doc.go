// Package devicemanager is a client of the program test/kubelet/manager: the device
// half of a real kubelet as a process of its own. That program is of another module,
// which needs k8s.io/kubernetes; here is nothing of it but what is said over its
// standard input and output (package wire, which the program has by a link).
package devicemanager
