// Package devnode makes the edits by which a container is given device nodes: each is
// looked at first, so that no container gets a node that is missing, is something else,
// or is another device than the kernel says. It knows no kind of hardware.
package devnode
