package openfiles

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/accelmux/accelmux/test/sysroot"
)

// procfs makes a tree with these links and files.
func procfs(t *testing.T, links, files map[string]string) string {
	t.Helper()
	f := sysroot.NewFiles(t)
	for name, to := range links {
		f.Link(name, to)
	}
	for name, text := range files {
		f.File(name, text)
	}
	return f.Root
}

// Only other processes that have a node open are found. The IDs are above the kernel's maximum,
// 4194304, so that none is this process's own.
func TestScan(t *testing.T) {
	root := procfs(t, map[string]string{
		"5000200/fd/0": "/dev/null", "5000200/fd/7": "/dev/nvidia1",
		"5000100/fd/3":                      "/dev/nvidia0",
		"5000300/fd/3":                      "/dev/nvidia10",
		strconv.Itoa(os.Getpid()) + "/fd/3": "/dev/nvidia0",
		"self":                              "1",
	}, map[string]string{"5000400/comm": "gone", "version": "Linux"})
	for want, nodes := range map[string][]string{
		"[5000100 5000200]": {"/dev/nvidia0", "/dev/nvidia1"}, "[5000300]": {"/dev/nvidia10"}, "[]": {"/dev/nvidia2"},
	} {
		if got, err := pids(Scan(t.Context(), root, os.Getpid(), nodes...)); err != nil || want != fmt.Sprint(got) {
			t.Errorf("%v is open in %v, %v, want %s", nodes, got, err, want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Scan(ended, root, 0, "/dev/nvidia0"); err == nil {
		t.Error("the end of the context is no error")
	}
	if _, err := Scan(t.Context(), filepath.Join(root, "none"), 0); err == nil {
		t.Error("without a procfs nothing is open")
	}
}

func pids(p Processes, err error) (list []int, _ error) {
	for _, one := range p {
		list = append(list, one.PID)
	}
	return list, err
}

// A process that cannot be inspected may have a node open.
func TestScanUnknown(t *testing.T) {
	root := procfs(t, nil, map[string]string{"5000100/fd": "no directory"})
	if got, err := Scan(t.Context(), root, 0, "/dev/nvidia0"); err == nil {
		t.Errorf("the processes are %v, want an error", got)
	}
}

// Processes are named if their names can be read, and not too many.
func TestNames(t *testing.T) {
	root := procfs(t, nil, map[string]string{"1/comm": "init\n", "2/comm": "\n"})
	if got, want := Named(root, 1, 2, 3).String(), "init (1), 2, 3"; got != want {
		t.Errorf("the names are %q, want %q", got, want)
	}
	if got, want := Named(root, slices.Repeat([]int{5}, 10)...).String(), "5, 5, 5, 5, 5, 5, 5, 5 and 2 more"; got != want {
		t.Errorf("the names are %q, want %q", got, want)
	}
}

// Only the initial namespace has all processes.
func TestSeesAll(t *testing.T) {
	for namespace, want := range map[string]bool{"pid:[4026531836]": true, "pid:[4026532001]": false, "": false} {
		links := map[string]string{"version": "x"}
		if namespace != "" {
			links["self/ns/pid"] = namespace
		}
		if got := SeesAll(procfs(t, links, nil)); got != want {
			t.Errorf("in %q all are seen: %v", namespace, got)
		}
	}
}
