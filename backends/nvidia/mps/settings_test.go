package mps

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
)

// Limits are equal shares of a GPU, unless settings set them.
func TestLimits(t *testing.T) {
	for text, want := range map[string]string{
		`{"replicas": 3}`: "set_default_device_pinned_mem_limit GPU-a 27306M,set_default_active_thread_percentage 33",
		`{"replicas": 3, "memory": "off", "threads": "auto"}`:   "set_default_active_thread_percentage 33",
		`{"replicas": 3, "memory": 1073741824, "threads": 50}`:  "set_default_device_pinned_mem_limit GPU-a 1024M,set_default_active_thread_percentage 50",
		`{"replicas": 3, "claims": true}`:                       "",
		`{"replicas": 100, "memory": "auto", "threads": "off"}`: "set_default_device_pinned_mem_limit GPU-a 819M",
	} {
		var s Settings
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		c, err := New("mps", s, Root{"/", "/"})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(c.Plan(map[string]uint64{"GPU-a": 80 << 30}).limits(), ","); got != want {
			t.Errorf("%s gives %s, want %s", text, got, want)
		}
		if c.Plan(nil) != nil {
			t.Error("a plan without GPUs")
		}
	}
}

// With the driver in a container, the daemon's root directory is the driver's root, and a
// container gets the directories in it by their paths on the host.
func TestDriverRoot(t *testing.T) {
	root := Root{Here: "/driver-root", Host: "/run/nvidia/driver"}
	c, err := New("mps", Settings{Replicas: 2}, root)
	if err != nil {
		t.Fatal(err)
	}
	e := c.Edits()
	if !maps.Equal(e.GetEnv(), map[string]string{"CUDA_MPS_PIPE_DIRECTORY": DefaultDir + "/pipe"}) {
		t.Errorf("the environment is %v", e.GetEnv())
	}
	for i, want := range [][2]string{
		{"/run/nvidia/driver/run/accelmux-mps/pipe", "/run/accelmux-mps/pipe"},
		{"/run/nvidia/driver/dev/shm", "/dev/shm"},
	} {
		if m := e.GetMounts()[i]; m.GetHostPath() != want[0] || m.GetContainerPath() != want[1] || !m.GetWritable() {
			t.Errorf("mount %d is %v, want %v, writable", i, m, want)
		}
	}
	at := place{root: root.Here, dir: DefaultDir}
	if command := at.run(t.Context(), "/usr/bin/x"); command.SysProcAttr.Chroot != root.Here {
		t.Errorf("the program's root is %q, want %s", command.SysProcAttr.Chroot, root.Here)
	}
	if c, _ = New("mps", Settings{Replicas: 2, UUIDs: []string{"GPU-a"}}, root); !c.Shares("GPU-a") || c.Shares("GPU-b") {
		t.Error("other GPUs are shared than those that were chosen")
	}
}
