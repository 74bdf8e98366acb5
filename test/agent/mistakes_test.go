package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
)

// beforeMistake is in force before each mistake: a backend with a mistake to come, and one that nothing is wrong with.
const beforeMistake = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: mock
        settings: {count: 4}
        holdover: 500ms
        recovery: {delay: 0s}
      - name: other
        command: accelmux-backend-other
        allow: {declared: accept}
        settings: {count: 2, class: fpga, id: "f-{{.Index}}"}
    resources:
      - {name: example.com/gpu, class: gpu}
      - {name: example.com/fpga, class: fpga}
`

// mistake is one in a configuration, or in what it needs on the node.
type mistake struct {
	// edit are pairs of texts in the configuration, before and after. The file with them also has one device more of the
	// backend that nothing is wrong with, so that it shows what of the file is in force.
	edit []string
	// spoil does something else to the node; nil for nothing. What it returns undoes that.
	spoil func(*mistaken) (mend func())
	// isRefused: the file is refused as a whole, once the agent has started again with restarted, and at once without.
	isRefused, restarted bool
	// applies: the rest of the file is in force.
	applies bool
	// isLost: the devices of the backend are held over once its process has ended.
	isLost bool
	// says are parts of a problem in status, and later, if set, of one once the backend's process was started again.
	says, later []string
}

// mistakes are one of each sort.
var mistakes = map[string]mistake{
	"YAML": {
		edit: []string{"{count: 4}", "{count: 4"}, isRefused: true, says: []string{"the configuration file is refused", "node.yaml:8: this is not YAML"},
	},
	"unknown field": {
		edit: []string{"holdover: 500ms", "holdovr: 500ms"}, isRefused: true, says: []string{"the configuration file is refused", "node.yaml:9:9: ", `did you mean "holdover"?`},
	},
	"setting that the schema refuses": {
		edit: []string{"{count: 4}", "{cuont: 4}"}, isRefused: true, says: []string{"the configuration file is refused", "node.yaml:8:20: ", `did you mean "count"?`},
	},
	"selector on an attribute that no manifest declares": {
		edit: []string{"class: gpu}", `class: gpu, selector: 'device.attributes["mock"].modle == "x"'}`}, isRefused: true,
		says: []string{"the configuration file is refused", "node.yaml:16:", `did you mean "model"?`},
	},
	"setting that only the backend refuses": {
		edit: []string{"{count: 4}", "{count: 4, id: same}"}, applies: true, says: []string{"mock", "the settings are refused: ", "the earlier settings stay in force"},
	},
	"name that is nearly that of an installed backend": {
		edit: []string{"name: mock\n", "name: moock\n"}, says: []string{"the switch to the new configuration would stop backend mock, but backend moock does not run"},
	},
	"backend without a manifest": {
		edit: []string{"    resources:", "      - name: late\n    resources:"}, applies: true, says: []string{"late", "accelmux-backend-late does not exist"},
	},
	"manifest that is gone": {
		spoil: func(n *mistaken) func() { return n.replace("accelmux-backend-mock.yaml", "") }, applies: true, isLost: true, says: []string{"mock", "accelmux-backend-mock.yaml"},
	},
	"manifest that refuses what is in force": {
		spoil: func(n *mistaken) func() {
			const file = "accelmux-backend-mock.settings.schema.json"
			return n.replace(file, strings.Replace(n.read(file), `"count": {"type": "integer", "minimum": 0, "maximum": 4096`, `"count": {"type": "integer", "minimum": 0, "maximum": 3`, 1))
		},
		isRefused: true, restarted: true, applies: true, says: []string{"mock", "accelmux-backend-mock.settings.schema.json"},
		later: []string{"mock", "by its manifest the settings are refused: count: ", "they stay in force"},
	},
}

// mistaken is a node with a mistake.
type mistaken struct {
	*program
	mistake
	programs string
	// held is the device that a pod has.
	held string
}

// Verifies for a mistake of each sort what is served, of devices that are free and of one that a pod has, when nothing
// else happens, when the backend is killed, the agent, both, and after a reboot: nothing of a file that can be checked
// applies, what only a backend can refuse keeps its earlier settings, and devices without a backend are held over. And
// that what is wrong is said all the while, and the file that is right is in force at once.
func TestMistakesAndWhatIsServed(t *testing.T) {
	t.Parallel()
	for name, m := range mistakes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := &mistaken{mistake: m, program: &program{node: newNode(t)}}
			n.programs = n.path("programs")
			n.install("accelmux-backend-mock", "accelmux-backend-other")
			n.startKubelet()
			n.configure(beforeMistake)
			n.launch()
			n.wantCounts(gpu, 4, 4)
			n.wantCounts(fpga, 2, 2)
			n.held = n.allocate("pod", gpu, 1)[0]
			n.eventually("the pod is known", n.isHeld)

			mend := func() {}
			if m.spoil != nil {
				mend = m.spoil(n)
			}
			after := strings.NewReplacer(append(m.edit, "count: 2", "count: 3")...).Replace(beforeMistake)
			if m.edit != nil {
				n.configure(after)
			}
			n.serves("nothing is killed", false, false)
			killed := n.backend("mock").PID
			n.kill(killed, syscall.SIGKILL)
			n.eventually("the agent knows that the backend was killed", func() bool {
				pid := n.backend("mock").PID
				return pid != killed && (pid == 0) == m.isLost
			})
			n.serves("the backend was killed", true, false)
			n.signal(syscall.SIGKILL)
			n.launch()
			n.serves("the agent was killed", true, true)
			if pid := n.backend("mock").PID; pid != 0 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			n.signal(syscall.SIGKILL)
			n.launch()
			n.serves("both were killed", true, true)
			n.signal(syscall.SIGKILL)
			n.reboot()
			n.launch()
			n.serves("the node was booted again", true, true)

			mend()
			if m.restarted { // a process keeps the manifest that it was started with
				n.signal(syscall.SIGKILL)
				n.launch()
			}
			n.configure(strings.Replace(beforeMistake, "count: 2", "count: 5", 1))
			n.wantCounts(gpu, 4, 4)
			n.wantCounts(fpga, 5, 5)
			n.eventually("no problem is left", func() bool { return len(n.problems()) == 0 })
		})
	}
}

// serves checks what is served: whether the backend's process, and the agent, were started since the mistake.
func (n *mistaken) serves(when string, backendAgain, agentAgain bool) {
	n.Helper()
	healthy, others := 4, 2
	if n.isLost && backendAgain {
		healthy = 0
	}
	if n.applies && n.edit != nil {
		others = 3
	}
	refused, says := n.isRefused && (agentAgain || !n.restarted), n.says
	if backendAgain && n.later != nil {
		says = n.later
	}
	n.eventually(when+": what is wrong is said", func() bool {
		return n.report().Config.Refused != "" == refused && slices.ContainsFunc(n.problems(), func(p string) bool { return hasAll(p, says) })
	})
	n.eventually(when+": the device is held", n.isHeld)
	for resource, want := range map[string][2]int{gpu: {4, healthy}, fpga: {others, others}} {
		if err := n.kubelet.WaitFor(n.soon(), func(s kubelettest.State) bool {
			r := s.Resources[resource]
			return r.Connections > 0 && r.Capacity == want[0] && r.Allocatable == want[1]
		}); err != nil {
			n.Fatalf("%s: %s has %d units, %d of them healthy, want %v\n%s", when, resource, n.kubelet.Capacity(resource), n.kubelet.Allocatable(resource), want, strings.Join(n.problems(), "\n"))
		}
	}
}

// isHeld reports whether the agent knows that the pod has its device.
func (n *mistaken) isHeld() bool {
	devices, err := n.client.Devices(n.Context())
	if err != nil {
		return false
	}
	for _, d := range devices {
		if d.ID == n.held && d.Backend == "mock" {
			return len(d.Holders) == 1 && d.Holders[0].Pod == "pod" && d.Resource == gpu
		}
	}
	return false
}

// launch starts an agent with backends of the node's own.
func (n *mistaken) launch() { n.program = n.startProcess(order{Programs: n.programs}) }

// install copies the mock backend and its manifest to these names.
func (n *mistaken) install(names ...string) {
	n.Helper()
	const source = "accelmux-backend-mock"
	files, err := filepath.Glob(filepath.Join(built.Dir(n.T), source+"*"))
	if err != nil || len(files) < 2 {
		n.Fatalf("the programs are %q: %v", files, err)
	}
	if err := os.Mkdir(n.programs, 0o755); err != nil {
		n.Fatal(err)
	}
	for _, name := range names {
		for _, file := range files {
			to := filepath.Join(n.programs, name+strings.TrimPrefix(filepath.Base(file), source))
			if filepath.Base(file) == source {
				err = os.Symlink(file, to)
			} else {
				var text []byte
				if text, err = os.ReadFile(file); err == nil {
					err = os.WriteFile(to, text, 0o644)
				}
			}
			if err != nil {
				n.Fatal(err)
			}
		}
	}
}

func (n *mistaken) read(file string) string {
	n.Helper()
	text, err := os.ReadFile(filepath.Join(n.programs, file))
	if err != nil {
		n.Fatal(err)
	}
	return string(text)
}

// replace replaces a file of a program; "" removes it. What it returns undoes that.
func (n *mistaken) replace(file, text string) (undo func()) {
	n.Helper()
	before, path := n.read(file), filepath.Join(n.programs, file)
	if before == text {
		n.Fatalf("%s stays as it is", file)
	}
	if err := os.Remove(path); err != nil {
		n.Fatal(err)
	}
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			n.Fatal(err)
		}
	}
	if text != "" {
		write(text)
	}
	return func() { write(before) }
}

// reboot loses what is only in memory, and starts kubelet again.
func (n *mistaken) reboot() {
	n.Helper()
	n.boot(secondBoot)
	for _, dir := range []string{"cdi", "run"} {
		if err := os.RemoveAll(n.path(dir)); err != nil {
			n.Fatal(err)
		}
	}
	n.restartKubelet()
}
