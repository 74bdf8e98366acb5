// Package devnode makes the edits that give a container device nodes. It inspects each node
// first, so that no container gets a node that is missing, is something else, or has another
// device number than the kernel reports. It is specific to no hardware.
package devnode
