package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/test/fpgadevice"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/sysroot"
)

const (
	fpgaRegion = "fpga.intel.com/region-a5d72a3cc8b04939912cf715e5dc10ca"
	fpgaConfig = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: fpga
        heartbeat: 1s
        recovery: {delay: 0s, reset: auto}
        settings: {mode: region, health: {interval: 1s}}
        allow: {devices: [/dev/dfl-*]}
    resources:
      - {name: "fpga.intel.com/{regionName}", class: region}
`
)

// Verifies that a port with an error is reset by its driver and by nobody else's, that
// its registers are cleared, that what is loaded stays, and that this ends the fault:
// the backend's own ioctls and writes, on two cards.
func TestFPGAReset(t *testing.T) {
	fpgadevice.SkipWithoutFilter(t)
	tree, err := fpgatree.Write(sysroot.TempDir(t), fpgatree.NewMany(2))
	if err != nil {
		t.Fatal(err)
	}
	device := fpgadevice.New(t, tree)
	n := newNode(t)
	n.startKubelet()
	n.configure(fpgaConfig)
	options := n.options()
	options.HostPaths = agent.HostPaths{Procfs: n.path("proc"), Devfs: tree.Devfs(), Sysfs: tree.Sysfs()}
	options.BackendDir = n.path("backends")
	if err := os.Mkdir(options.BackendDir, 0o755); err != nil {
		t.Fatal(err)
	}
	const backend = "accelmux-backend-fpga"
	if err := device.Program(filepath.Join(options.BackendDir, backend), filepath.Join(programs, backend)); err != nil {
		t.Fatal(err)
	}
	quickUsage(&options)
	n.startAgentWith(options)
	n.wantCounts(fpgaRegion, 2, 2)

	at := tree.Machine().Cards[1].Address
	if err := tree.SetRegister(at, "port0/errors", 2); err != nil {
		t.Fatal(err)
	}
	n.eventually("the port is reset", func() bool { return len(device.Calls(fpgadevice.Reset)) > 0 })
	n.wantCounts(fpgaRegion, 2, 2)
	calls, pid := device.Calls(), n.backend("fpga").PID
	if len(calls) != 1 || calls[0].Function != at || calls[0].Node != "dfl-port.1" || calls[0].PID != pid || calls[0].Errno != 0 {
		t.Errorf("the card was asked %+v, want one reset by process %d", calls, pid)
	}
	dir, err := tree.Find(at, "port0")
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"errors/errors": "0x0", "afu_id": tree.Machine().Cards[1].AFU} {
		b, err := os.ReadFile(filepath.Join(tree.Root, dir, file))
		if err != nil || strings.TrimSpace(string(b)) != want {
			t.Errorf("%s is %q, want %s; %v", file, b, want, err)
		}
	}
}
