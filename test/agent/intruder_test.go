package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/host"
	"github.com/accelmux/accelmux/test/hostile/intruder"
	"github.com/accelmux/accelmux/test/patience"
	"github.com/accelmux/accelmux/test/programs"
)

// intruderNode is a configuration with an intruder and a mock. The test replaces SETTINGS and SANDBOX.
const intruderNode = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: bad
        command: intruderbackend
        settings: SETTINGS
        allow: {declared: accept}
        sandbox: {mode: SANDBOX}
      - {name: mock, settings: {count: 2}, env: {SECRET: "of the mock's"}}
    resources:
      - {name: example.com/gpu, backend: mock}
      - {name: example.com/bad, backend: bad}
`

// intrusion is a node with an intruder among its backends.
type intrusion struct {
	*program
	settings intruder.Settings
	sandbox  string // its mode
}

// startIntrusion starts the agent in a cage, with the mode of the intruder's sandbox, and waits until its
// backends serve.
func startIntrusion(t *testing.T, c cage, mode string) *intrusion {
	t.Helper()
	if os.Geteuid() != 0 {
		host.Lacks(t, "only root can make the namespaces of the test")
	}
	n := newNode(t)
	n.furnish()
	n.startKubelet()
	n.configure(strings.NewReplacer("SETTINGS", `{"ownNode": "DIR/dev/own"}`, "SANDBOX", mode).Replace(intruderNode))
	command := n.command("run", "--metrics-address", cageMetrics)
	for i, argument := range command.Args {
		if argument == "--backend-dir" {
			command.Args[i+1] = n.path("backends")
		}
	}
	if err := c.caged(command); err != nil {
		t.Fatal(err)
	}
	x := &intrusion{program: n.newProgram("run", command), sandbox: mode}
	x.serve()
	n.wantCounts(gpu, 2, 2)
	n.wantCounts(bad, 1, 1)
	x.settings = intruder.Settings{
		Agent: x.report().PID, Other: x.backend("mock").PID, Node: os.Getpid(),
		Kubelet: n.path("kubelet"), CDI: n.path("cdi"), Spec: n.path("cdi", "accelmux-mock-gpu.json"), State: n.path("state"), StateFile: n.path("state", "lock"), Run: n.path("run"), Config: n.path("node.yaml"),
		Programs: n.path("backends"), OtherProgram: n.path("backends", "accelmux-backend-idle"), Token: cageToken, Volume: n.path("kubelet", "pods", "uid", "volumes", "secret"),
		OwnNode: n.path("dev", "own"), OtherNode: n.path("dev", "other"), OtherSockets: n.sockets(x.command.Process.Pid, x.backend("mock").PID),
		Runtime: cageRuntime, Manager: cageManager, Log: cageLog, Bus: cageBus, Abstract: cageAbstract, Loopback: cageMetrics, Outside: cageAddress + ":9", Segment: cageSegment,
		Setuid: n.path("setuid"),
	}
	if c.PIDs {
		x.settings.Node = x.settings.Agent
	}
	return x
}

// furnish makes what a node has beside the agent.
func (n *node) furnish() {
	n.Helper()
	// All users may pass the directory: each file in it that is protected has a mode of its own.
	failures := []error{os.Chmod(n.dir, 0o755)}
	for _, dir := range []string{"dev", "backends", "kubelet/pods/uid/volumes", "kubelet/device-plugins", "cdi", "run", "state"} {
		failures = append(failures, os.MkdirAll(n.path(dir), 0o755))
	}
	failures = append(failures, os.Chmod(n.path("kubelet/pods"), 0o750),
		os.WriteFile(n.path("backends/accelmux-backend-idle"), nil, 0o755),
		os.WriteFile(n.path("kubelet/pods/uid/volumes/secret"), []byte("a secret"), 0o644),
		os.WriteFile(n.path("kubelet/device-plugins/kubelet_internal_checkpoint"), []byte("{}"), 0o600))
	for _, name := range []string{"own", "other"} {
		failures = append(failures, unix.Mknod(n.path("dev", name), unix.S_IFCHR, int(unix.Mkdev(1, 7))), os.Chmod(n.path("dev", name), 0o666))
	}
	for from, to := range map[string]string{"accelmux-backend-mock": "backends/accelmux-backend-mock", "intruderbackend": "backends/intruderbackend"} {
		failures = append(failures, copyProgram(filepath.Join(built.Dir(n.T), from), n.path(to)))
		programs.CopyManifest(n, filepath.Join(built.Dir(n.T), from), n.path(to))
	}
	failures = append(failures, copyProgram(n.path("backends/intruderbackend"), n.path("setuid")), os.Chmod(n.path("setuid"), 0o755|os.ModeSetuid))
	if err := errors.Join(failures...); err != nil {
		n.Fatal(err)
	}
}

func copyProgram(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// sockets are those of the backend with that process ID in the agent's PID namespace.
func (n *node) sockets(agent, pid int) []string {
	n.Helper()
	environment, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(agent), "root/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		n.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(environment), "PLUGIN_UNIX_SOCKET_DIR=")
	dir, _, _ := strings.Cut(rest, "\x00")
	paths, _ := filepath.Glob(filepath.Join(dir, "*"))
	more, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
	if paths = append(paths, more...); len(paths) == 0 {
		n.Fatalf("backend %d has no socket in %q", pid, dir)
	}
	return paths
}

// attempt has the intruder make attempts, and returns the results by name: Succeeded, or the error.
func (x *intrusion) attempt(name string) map[string]string {
	x.Helper()
	x.settings.Attempt = name
	x.reconfigure()
	results := map[string]string{}
	x.eventually("all attempts are made", func() bool {
		devices, _ := x.client.Devices(x.Context())
		for _, d := range devices {
			switch result := d.Attributes[intruder.ResultAttribute]; {
			case result == intruder.Refused:
				results[d.ID] = fmt.Sprint(d.Attributes[intruder.ErrorAttribute])
			case result != nil:
				results[d.ID] = fmt.Sprint(result)
			}
		}
		return len(results) == len(intruder.Controls())+len(intruder.Attempts())
	})
	return results
}

// reconfigure writes the node configuration with the intruder's settings.
func (x *intrusion) reconfigure() {
	x.Helper()
	text, err := json.Marshal(x.settings)
	if err != nil {
		x.Fatal(err)
	}
	x.configure(strings.NewReplacer("SETTINGS", string(text), "SANDBOX", x.sandbox).Replace(intruderNode))
}

// Verifies that an attempt is refused where a measure that refuses it is in force, and succeeds elsewhere: so the
// measure is the reason, and not a mistake in the attempt. What every backend needs is never refused. No attempt
// affects another backend's devices, and a process that leaves the backend's process group ends with the backend.
func TestIntruder(t *testing.T) {
	t.Parallel()
	for name, c := range places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := startIntrusion(t, c.cage, c.mode)
			x.mark(gpu)
			if got := x.inForce(); c.mode != "off" && !slices.Equal(got, c.measures) {
				t.Errorf("in force are %q, want %q", got, c.measures)
			}
			results := x.attempt(intruder.All)
			for _, a := range intruder.Controls() {
				if got := results[a.Name]; got != intruder.Succeeded {
					t.Errorf("%s: %s", a.What, got)
				}
			}
			for _, a := range intruder.Attempts() {
				refused := c.refuses(a)
				switch got := results[a.Name]; {
				case refused == (got != intruder.Succeeded):
				case !refused && a.Optional:
					t.Logf("not on this machine: %s (%s)", a.What, got)
				default:
					t.Errorf("attempt to %s: %s; in force are %q, and it is refused by %s", a.What, got, c.measures, a.By)
				}
			}
			x.wantOthersUnharmed()
		})
	}
}

// inForce returns the measures that the agent reports for the intruder, sorted, without cgroup, which few
// machines of tests have.
func (x *intrusion) inForce() (measures []string) {
	x.Helper()
	box := x.backend("bad").Sandbox
	if box == nil {
		x.Fatal("no sandbox is reported")
	}
	for _, m := range box.Measures {
		if m.InForce && m.Name != "cgroup" {
			measures = append(measures, m.Name)
		} else {
			x.Logf("%s: %s", m.Name, m.Detail)
		}
	}
	slices.Sort(measures)
	return measures
}

// Verifies that the kernel kills the backend that uses all the memory of its pod, and that this costs neither the
// agent nor a device of another backend.
func TestIntruderExhaustsMemory(t *testing.T) {
	t.Parallel()
	x := startIntrusion(t, cage{Cgroup: memoryCgroup(t, 400<<20)}, "off")
	x.mark(gpu)
	first := x.backend("bad").PID
	x.settings.Attempt = intruder.Exhaust
	x.reconfigure()
	x.eventually("the intruder is killed", func() bool { pid := x.backend("bad").PID; return pid != first })
	// The kernel may kill another backend as well, before the memory of the first is free (seen once in 25 runs on 6.18).
	x.eventually("the other backend runs", func() bool { x.settings.Other = x.backend("mock").PID; return x.settings.Other != 0 })
	x.wantOthersUnharmed()
}

// memoryCgroup makes a cgroup with a limit in bytes, of either version.
func memoryCgroup(t *testing.T, limit int) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		root, file := "/sys/fs/cgroup", "memory.max"
		if fields[1] != "" {
			root, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		dir := filepath.Join(root, fields[2], filepath.Base(t.TempDir())+strconv.Itoa(os.Getpid()))
		if fields[1] != "" && fields[1] != "memory" || os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() {
			if !patience.Within(patience.Long, func() bool { return os.Remove(dir) == nil }) {
				t.Errorf("cgroup %s cannot be removed", dir)
			}
		})
		if os.WriteFile(filepath.Join(dir, file), []byte(strconv.Itoa(limit)), 0) == nil {
			return dir
		}
	}
	host.Lacks(t, "no cgroup with a memory limit can be made")
	return ""
}

// wantOthersUnharmed checks that the agent and the other backend are the same processes, that the other one's
// devices were available since mark, and that nothing of the intruder is left when it is not configured any more.
func (x *intrusion) wantOthersUnharmed() {
	x.Helper()
	x.wantNoDip(gpu, 2)
	x.allocate("after", gpu, 2)
	if agent, other := x.report().PID, x.backend("mock").PID; agent != x.settings.Agent || other != x.settings.Other {
		x.Errorf("the agent is process %d and the other backend process %d, they were %d and %d", agent, other, x.settings.Agent, x.settings.Other)
	}
	without, _, _ := strings.Cut(intruderNode, "      - name: bad")
	_, rest, _ := strings.Cut(intruderNode, "mode: SANDBOX}\n")
	rest, _, _ = strings.Cut(rest, "      - {name: example.com/bad")
	x.configure(without + rest)
	x.eventually("no process of the intruder is left", func() bool {
		return !slices.ContainsFunc(x.processes(), func(line string) bool { return strings.Contains(line, "intruderbackend") })
	})
	for _, path := range []string{x.settings.StateFile, x.settings.Volume} {
		if _, err := os.Stat(path); err != nil {
			x.Error(err)
		}
	}
}
