// Package kubeletdir finds the root directory of the kubelet that runs on this node. It does not
// read anything in it.
//
// Kubelet has one directory that the agent uses at a fixed place, and the others below its root
// directory, which its flag --root-dir names:
//
//	/var/lib/kubelet/device-plugins   kubelet.sock, the sockets of device plugins, kubelet's checkpoint
//	ROOT/pod-resources                kubelet.sock
//	ROOT/plugins_registry             the sockets at which plugins are registered
//	ROOT/plugins                      the sockets of DRA drivers, and their metadata files
//	ROOT/pods, ROOT/pki               volumes and keys, which no backend sees
//
// The sources are in k8s.io/kubernetes, v1.37.1 as in 1.26: NewManagerImpl in
// pkg/kubelet/cm/devicemanager/manager.go has the constant KubeletSocket of
// k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1, and its checkpoint beside that; the other
// directories are those of pkg/kubelet/kubelet_getters.go. Kubernetes issue 120626 is about it.
package kubeletdir
