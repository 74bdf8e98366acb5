// Package kubelettest is a stand-in for kubelet's device manager, as
// net/http/httptest is one for a server: it speaks the device plugin API
// (v1beta1), the plugin watcher's registration API and the pod-resources API
// (v1) over real unix sockets, and stores allocations as kubelet does. Tests and
// demonstrations connect a real device plugin to it.
//
// It follows k8s.io/kubernetes v1.37, and copies its behaviour with its flaws, as far as a
// device plugin can notice it:
//
//   - it dials back, blocking, inside the Register call, and asks for the
//     options once per connection;
//   - it refuses a second connection to one socket path ("device plugin already
//     connected") and thereby loses its handle on the first, so that the
//     resource stays as it was until the stand-in restarts;
//   - several connections may serve one resource: the last list wins, the last
//     connection answers calls, and a lost one is replaced by one that is left;
//   - a start deletes every top-level socket in device-plugins and nothing else;
//   - a list over 4 MiB breaks the stream, and a broken stream makes every
//     device unhealthy;
//   - answers to Allocate are stored over a restart and replayed.
//
// [Options.Legacy] gives the connection handling of releases up to 1.36, where
// the end of any stream of a resource disconnects its newest one.
//
// There is no topology manager, no container runtime and no API server here:
// devices are chosen without NUMA hints, and a started container is only the
// set of settings it would get.
package kubelettest
