package kfd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/accelmux/accelmux/backends/sysfs"
)

// Topology is what was found in one pass.
type Topology struct {
	// Generation is that at the begin of the pass; the driver counts it up each time a device
	// comes or goes.
	Generation uint64
	// Nodes are those that could be read, CPU nodes too, by number.
	Nodes []Node
	// Problems are nodes and links that are left out.
	Problems []Problem
	// Torn: the topology changed during the pass, so it may have nodes of before and of after,
	// or lack some. The driver removes all nodes and makes them again, and it counts the
	// generation of a removed device before it makes them: a generation that stays the same
	// is no proof that all is there. A caller that saw a new generation should read again a
	// little later.
	Torn bool
}

// Problem is something that is left out, and why.
type Problem struct {
	// Node is the number of the node.
	Node int
	// Link: only a link of the node is left out.
	Link bool
	// Err names the file.
	Err error
}

// maxNodes is far above what the driver has: 64 partitions and a few sockets. More
// are not read.
const maxNodes = 1024

// directory is the topology's below the root of sysfs.
func directory(root string) string {
	return filepath.Join(root, "class", "kfd", "kfd", "topology")
}

// Generation returns the topology's generation now: a cheap way to see that something
// changed. The error is fs.ErrNotExist if the driver is not loaded.
func Generation(root string) (uint64, error) {
	n, err := sysfs.Uint(filepath.Join(directory(root), "generation_id"))
	if err != nil {
		return 0, fmt.Errorf("KFD topology: %w", err)
	}
	return n, nil
}

// Read reads the topology in one pass. root is that of sysfs, usually /sys. The error is
// fs.ErrNotExist if the driver is not loaded. It can be called concurrently.
func Read(root string) (Topology, error) { return read(root, func() {}) }

// read is Read; a test changes the tree in between.
func read(root string, between func()) (Topology, error) {
	generation, err := Generation(root)
	if err != nil {
		return Topology{}, err
	}
	t := Topology{Generation: generation}
	dir := filepath.Join(directory(root), "nodes")
	before, err := list(dir)
	if err != nil {
		return Topology{}, fmt.Errorf("KFD topology: %w", err)
	}
	for _, e := range before {
		node, problems, err := readNode(filepath.Join(dir, strconv.Itoa(e.number)), e.number)
		t.Problems = append(t.Problems, problems...)
		if err != nil {
			t.Problems = append(t.Problems, Problem{Node: e.number, Err: err})
			continue
		}
		t.Nodes = append(t.Nodes, node)
	}
	between()
	t.Torn = !same(root, generation, before)
	return t, nil
}

// same reports whether the topology is still that of the begin of the pass.
func same(root string, generation uint64, nodes []entry) bool {
	now, err := Generation(root)
	if err != nil || now != generation {
		return false
	}
	after, err := list(filepath.Join(directory(root), "nodes"))
	return err == nil && slices.Equal(after, nodes)
}

// entry is a node's directory. Its inode changes when it is made again.
type entry struct {
	number int
	inode  uint64
}

// list returns the directories of nodes by number.
func list(dir string) ([]entry, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if len(entries) > maxNodes {
		return nil, fmt.Errorf("%s has %d entries, more than the %d that can be", dir, len(entries), maxNodes)
	}
	nodes := make([]entry, 0, len(entries))
	for _, e := range entries {
		number, err := strconv.Atoi(e.Name())
		if err != nil || strconv.Itoa(number) != e.Name() || number < 0 {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // the following list will not have it, either
		}
		if err != nil {
			return nil, err
		}
		at := entry{number: number}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			at.inode = stat.Ino
		}
		nodes = append(nodes, at)
	}
	slices.SortFunc(nodes, func(a, b entry) int { return cmp.Compare(a.number, b.number) })
	return nodes, nil
}
