package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	cdi "tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/test/patience"
)

// has reports whether kubelet has these counts from a live connection.
func (c *crash) has(resource string, capacity, allocatable int) func() bool {
	return func() bool {
		r := c.kubelet.State().Resources[resource]
		return r.Connections > 0 && r.Capacity == capacity && r.Allocatable == allocatable
	}
}

// live goes through all that happens to an agent, until it ends or is killed.
func (c *crash) live() {
	c.Helper()
	faulty := fmt.Sprintf("devices: {%s: {fault: {code: xid-79, recovery: reboot}}", broken)
	steps := []struct {
		do    func()
		what  string
		holds func() bool
	}{
		{func() {}, "the first resource is registered", c.has(gpu, 4, 4)},
		{func() {}, "the second resource is registered", c.has("example.com/other", 2, 2)},
		{c.allocated, "a pod has devices", func() bool { return true }},
		{func() { c.scenario(faulty + "}") }, "a fault is at kubelet", c.has(gpu, 4, 3)},
		{func() { c.configure(strings.Replace(crashConfig, "count: 4", "count: 5", 1)) }, "a new configuration is in force", c.has(gpu, 5, 4)},
		{func() { c.scenario(faulty + ", mock-4: {fault: {code: hot, recovery: self}}}") }, "another fault is at kubelet", c.has(gpu, 5, 3)},
		{func() { c.scenario(faulty + "}") }, "it is gone", c.has(gpu, 5, 4)},
		{func() {
			if err := c.kubelet.Restart(); err != nil {
				c.Fatal(err)
			}
		}, "kubelet has the resources after its restart", c.has(gpu, 5, 4)},
	}
	for _, s := range steps {
		if s.do(); !c.until(s.what, s.holds) {
			return
		}
	}
	_ = c.command.Process.Signal(syscall.SIGTERM)
	c.until("the agent ends", func() bool { return false })
}

// allocated gives a pod two devices, unless the agent is killed meanwhile.
func (c *crash) allocated() {
	c.Helper()
	a, err := c.kubelet.Allocate(c.Context(), "pod", "main", gpu, 2)
	if err != nil {
		if patience.Within(patience.Long, c.over) {
			return
		}
		c.Fatal(err)
	}
	c.names = map[string]string{}
	take := func(holders bool) {
		for _, d := range a.Response.GetCdiDevices() {
			if strings.Contains(d.GetName(), "/holder=") == holders {
				c.names[d.GetName()] = ""
			}
		}
		for name, edits := range c.resolved() {
			if c.names[name] = edits; edits == "" {
				c.Errorf("%s was given to a container, and cannot be resolved", name)
			}
		}
	}
	take(false)
	// What the container alone gets is defined when it starts.
	if _, err := c.kubelet.StartContainer(c.Context(), "pod", "main"); err == nil {
		take(true)
	}
}

// resolved is what the CDI library finds behind the names that the pod has; "" for nothing.
func (c *crash) resolved() map[string]string {
	c.Helper()
	cache, err := cdi.NewCache(cdi.WithSpecDirs(c.path("cdi")), cdi.WithAutoRefresh(false))
	if err != nil {
		c.Fatal(err)
	}
	found := map[string]string{}
	for name := range c.names {
		if d := cache.GetDevice(name); d != nil {
			text, err := json.Marshal(d.ContainerEdits)
			if err != nil {
				c.Fatal(err)
			}
			found[name] = string(text)
		} else {
			found[name] = ""
		}
	}
	return found
}

func (c *crash) wantNames(when string) {
	c.Helper()
	for name, edits := range c.resolved() {
		if edits != c.names[name] {
			c.Errorf("%s the pod's name %s means %q, and meant %q", when, name, edits, c.names[name])
		}
	}
}

// afterDeath checks what the agent has left.
func (c *crash) afterDeath() {
	c.Helper()
	c.eventually("the agent is dead", c.over)
	var left []string
	if !patience.Within(patience.Long, func() bool {
		left = c.processes()
		return len(left) == 0
	}) {
		c.Errorf("%v after the core was killed there are still %v", patience.Long, left)
	}
	c.wantNames("after the core's death")
	c.wantWhole(true)
}

// processes are those that have the node's directory in their environment or arguments.
func (n *node) processes() []string {
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return []string{err.Error()}
	}
	var ours []string
	for _, path := range all {
		environment, _ := os.ReadFile(filepath.Join(path, "environ"))
		line, _ := os.ReadFile(filepath.Join(path, "cmdline"))
		if bytes.Contains(environment, []byte(n.dir+"/")) || bytes.Contains(line, []byte(n.dir+"/")) {
			ours = append(ours, filepath.Base(path)+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return ours
}

// wantWhole checks every file that the agent keeps. What is not in its place yet, as
// its name says, may be left only until the next start; of an agent that runs it may be
// on its way there.
func (c *crash) wantWhole(leftovers bool) {
	c.Helper()
	for _, dir := range []string{"state", "cdi", "run", "kubelet/device-plugins", "kubelet/plugins_registry"} {
		err := filepath.WalkDir(c.path(dir), func(path string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // gone meanwhile, or not made yet
			}
			if err != nil {
				return err
			}
			name := entry.Name()
			switch {
			case strings.Contains(name, ".corrupt"):
				c.Errorf("%s is left", path)
				return nil
			case strings.HasPrefix(name, "."):
				gone := func() bool { _, err := os.Lstat(path); return errors.Is(err, fs.ErrNotExist) }
				if !leftovers && !patience.Within(patience.Long, gone) {
					c.Errorf("%s is left", path)
				}
				return nil
			case entry.IsDir() || !entry.Type().IsRegular() || strings.HasPrefix(path, c.path("kubelet")):
				return nil
			case filepath.Ext(name) == ".json":
				_, err = cdi.ReadSpec(path, 0)
			case name != "lock" && filepath.Ext(name) != ".lock" && filepath.Ext(name) != ".reserve":
				err = sealed(path)
			}
			if err != nil {
				c.Errorf("a torn file: %v", err)
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.Error(err)
		}
	}
}

// sealed checks a state file of any kind.
func sealed(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	magic, _, _ := bytes.Cut(text, []byte(" "))
	_, err = checkpoint.Read(path, string(magic))
	return err
}

// again starts the agent anew, with backends that have forgotten the faults, and ends it.
func (c *crash) again() {
	c.Helper()
	c.scenario("{}")
	next := c.newProgram("run", c.node.command("run"))
	c.launch(next)
	text, err := os.ReadFile(c.path("node.yaml"))
	if err != nil {
		c.Fatal(err)
	}
	count := 4
	if strings.Contains(string(text), "count: 5") {
		count = 5
	}
	c.mu.Lock()
	sick := c.sick
	c.mu.Unlock()
	c.eventually("all is registered after the next start", func() bool {
		report, err := next.client.Report(c.Context())
		gpus := c.kubelet.State().Resources[gpu]
		return err == nil && len(report.NotReady) == 0 && c.has("example.com/other", 2, 2)() &&
			(c.has(gpu, count, count-1)() || !sick && c.has(gpu, count, count)()) && gpus.Connections == 1
	})
	c.wantNames("after the next start")
	report, err := next.client.Report(c.Context())
	if err != nil {
		c.Error(err)
	}
	for _, p := range report.Problems {
		if p.Device != broken {
			c.Errorf("after the next start there is a problem: %s %s %s", p.Backend, p.Resource, p.Message)
		}
	}
	c.wantWhole(false)
	next.signal(syscall.SIGTERM)
	if next.err != nil {
		c.Errorf("the next agent ended with %v", next.err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.healed != "" {
		c.Error(c.healed)
	}
}
