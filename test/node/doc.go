// Package node holds the tests on a real Kubernetes: etcd, API server, scheduler,
// controller manager, kubelet, containerd and runc as one node on this machine,
// our Helm chart installed on it, and real pods that get mock devices. It is a
// module of its own because it needs client-go, which nothing else here does to
// this extent.
//
// Run it with `make test-node`, as root; README.md says how to run one test and
// how to look around in the node. The tests run inside the node's namespaces:
// /var/lib/kubelet, /var/run/cdi and the API server are those of the node. They
// share the node, so they run one after another, and each installs the chart
// anew.
package node
