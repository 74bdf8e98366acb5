// Package rival notices other device plugins that serve a resource of ours: another
// accelmux that knows nothing of this one, or a vendor's own plugin that was left in place.
// Kubelet takes both, goes by the list that came last, and asks whichever came last.
//
// What is told is certain, and each sign is one that no accelmux alone gives:
//
//   - A socket with a name of accelmux's, in kubelet's directory, that another process
//     listens on, longer than a hand-over takes.
//   - Kubelet's list of a resource is not ours: it has units that we do not list, or lacks
//     healthy ones that we do, at two looks in a row.
//   - Kubelet gave a unit of ours to a container without asking us.
//
// What cannot be noticed: another plugin that lists the same units under the same IDs, as
// NVIDIA's does, before kubelet asks it for a container; and who it is. No call of the
// device plugin API says what a socket serves.
//
// While the other one is there, the package only tells: to register again would have both
// plugins register again without end. When it has left, kubelet still goes by its list, or
// has none: then the resource is registered again, once.
package rival
