// Package hostfs finds what a path of the host is: the file behind its links, the place of that
// file in its own file system behind bind mounts, and the device behind a node's number.
//
// A path is followed as a container runtime follows it, from the host's root, also where this
// process is in a container that has only some of the host's trees: directories that are mounted
// into it. Whether a container may have
// the file is for package inventory to decide.
package hostfs
