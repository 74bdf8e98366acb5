// Package conflict finds conflicting device plugins: others that serve a resource of this
// agent, such as a vendor's own plugin that was left in place, or a second accelmux. Kubelet
// accepts all of them, uses the list of devices that arrived last, and sends Allocate to the
// plugin that registered last.
//
// A [Detector] compares the healthy devices that kubelet has with those that this agent
// advertises. Two comparisons in a row with the same difference are a [Conflict]. A plugin that
// advertises the same device IDs is found if its socket is named after the resource, as those of
// the vendors' plugins are; otherwise not before it ends.
//
// While the other plugin runs, the agent does not register again: both plugins would do so
// without end. When it has ended, kubelet up to 1.36 has no healthy device of the resource,
// and kubelet 1.37 keeps those of the ended plugin, which no container can have. So the agent
// registers once when kubelet has no healthy device, and when a socket on which another
// process listened does so no more: the comparison alone does not show the latter.
package conflict
