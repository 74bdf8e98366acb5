package kubeletdir

import (
	"bufio"
	"context"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Default is kubelet's root directory without --root-dir, and in any case the parent of
// device-plugins.
const Default = "/var/lib/kubelet"

// dialTimeout bounds an attempt to connect. A local connection takes so long only if the other process, or the machine,
// is stopped.
const dialTimeout = 10 * time.Second

// Socket is the pod-resources socket of a kubelet with that root directory.
func Socket(root string) string { return filepath.Join(root, "pod-resources", "kubelet.sock") }

// Dial returns nil if a process accepts connections at a unix socket, kubelet or a plugin. It sends nothing.
func Dial(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	connection, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	return connection.Close()
}

func answers(ctx context.Context, root string) bool { return Dial(ctx, Socket(root)) == nil }

// Find returns the root directory of the running kubelet, by procfs, the root of procfs with the
// node's processes: the usual one, if a kubelet answers there; otherwise the one at which another
// kubelet answers; or that of the command line of a kubelet that does not answer yet. It returns "" if
// there is none, or several.
func Find(ctx context.Context, procfs, usual string) string {
	if answers(ctx, usual) {
		return usual
	}
	starting := commandLines(procfs)
	answering := map[string]bool{}
	for root := range union(starting, sockets(procfs)) {
		if answers(ctx, root) {
			answering[root] = true
		}
	}
	if len(answering) == 0 {
		answering = starting
	}
	if len(answering) != 1 {
		return ""
	}
	return slices.Collect(maps.Keys(answering))[0]
}

func union(a, b map[string]bool) map[string]bool {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// sockets returns the directories below which a process in the network namespace of process 1 has made a socket
// in pod-resources. That also finds a kubelet that is a part of another program, such as k3s and
// MicroK8s have. Kubelet makes the socket by another name and renames it (CreateListener in
// k8s.io/cri-client/pkg/util); the kernel lists the first name (unix(7), /proc/net/unix).
func sockets(procfs string) map[string]bool {
	roots := map[string]bool{}
	file, err := os.Open(filepath.Join(procfs, "1", "net", "unix"))
	if err != nil {
		return roots
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		_, path, found := strings.Cut(lines.Text(), " /")
		if dir := filepath.Dir("/" + path); found && filepath.Base(dir) == "pod-resources" {
			roots[filepath.Dir(dir)] = true
		}
	}
	return roots
}

// commandLines returns the root directories of the processes that are named kubelet, except those in
// containers, which have another root file system than process 1.
func commandLines(procfs string) map[string]bool {
	roots := map[string]bool{}
	host, err := os.Stat(filepath.Join(procfs, "1", "root"))
	if err != nil {
		return roots
	}
	files, _ := filepath.Glob(filepath.Join(procfs, "[0-9]*", "cmdline")) // the pattern is good
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		args := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
		if filepath.Base(args[0]) != "kubelet" {
			continue
		}
		if own, err := os.Stat(filepath.Join(filepath.Dir(path), "root")); err == nil && os.SameFile(own, host) {
			roots[rootDir(args[1:])] = true
		}
	}
	return roots
}

// rootDir returns the root directory that kubelet's arguments name. Kubelet takes underscores for
// dashes in flags (WordSepNormalizeFunc in k8s.io/component-base/cli/flag), and of two values the last.
func rootDir(args []string) string {
	dir := Default
	for i, arg := range args {
		name, value, assigned := strings.Cut(arg, "=")
		if strings.ReplaceAll(name, "_", "-") != "--root-dir" {
			continue
		}
		if !assigned && i+1 < len(args) {
			value = args[i+1]
		}
		if filepath.IsAbs(value) {
			dir = filepath.Clean(value)
		}
	}
	return dir
}
