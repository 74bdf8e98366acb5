package kernel

import (
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/kernel/machine"
	"github.com/accelmux/accelmux/test/kernel/wire"
	"github.com/accelmux/accelmux/test/patience"
)

// backends is the configuration with all backends; mock has the only devices.
const backends = `apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
- name: default
  backends:
  - {name: amd}
  - {name: nvidia}
  - {name: fpga}
  - {name: device, settings: {presets: [kvm]}, allow: {devices: [/dev/kvm]}}
  - {name: mock, settings: {count: 2}}
  resources:
  - {name: example.com/kvm, class: kvm}
  - {name: example.com/mock, class: gpu}`

// backend is the command for the process IDs of a backend, or all.
func backend(name string) string { return "pgrep -f '^[^ ]*accelmux-backend-" + name + "'" }

// TestBackendsAreConfinedUnderTheUnit verifies by the kernel's account of each backend's process that it has a user of
// its own without capabilities, a filter of system calls beside the unit's, no way to more rights, and a cgroup that is not
// the agent's. It fails if the unit leaves the agent no CAP_SETUID or no seccomp(2).
func TestBackendsAreConfinedUnderTheUnit(t *testing.T) {
	configure(t, standard) // the file of the sample's scenario can only be read by a mock that is root
	untilCount(t, "example.com/gpu", 0)
	configure(t, backends)
	untilCount(t, "example.com/kvm", 1)
	untilCount(t, "example.com/mock", 2)
	const filters = "awk '/^Seccomp_filters:/{print $2}' /proc/%s/status"
	unit := m.Run(t, filters, process(t))
	for _, name := range []string{"amd", "nvidia", "fpga", "device", "mock"} {
		var out wire.Output // of a process that is not replaced meanwhile
		if !patience.Within(machine.Limit, func() bool {
			out = m.Try(t, `cd /proc/$(%s | head -n 1) && awk '/^(Uid|CapEff|CapBnd|CapPrm|NoNewPrivs|Seccomp_filters):/{print $1 $2}' status && cat cgroup`, backend(name))
			return out.Status == 0
		}) {
			t.Errorf("%s does not run: %s", name, out.Text)
			continue
		}
		status := strings.Fields(out.Text)
		for _, want := range []string{"CapEff:0000000000000000", "CapPrm:0000000000000000", "CapBnd:0000000000000000", "NoNewPrivs:1"} {
			if !slices.Contains(status, want) {
				t.Errorf("%s: %q, want %s", name, status, want)
			}
		}
		if slices.Contains(status, "Uid:0") {
			t.Errorf("%s runs as root", name)
		}
		if slices.Contains(status, "Seccomp_filters:"+unit) {
			t.Errorf("%s has the %s filters of the unit, and none of its own", name, unit)
		}
		if group := status[len(status)-1]; !strings.Contains(group, "/accelmux.service/") || strings.HasSuffix(group, "/agent") {
			t.Errorf("%s is in the cgroup %s", name, group)
		}
	}
}

// process is the agent's process ID.
func process(t *testing.T) string {
	t.Helper()
	return m.Run(t, "systemctl show --property MainPID --value accelmux")
}

// TestBackendKilledForMemory verifies that a backend that the kernel killed, as its cgroup had no memory, lists its
// devices again, and that those of another backend stay. It fails if the unit ends with one of its processes, or a backend
// that was killed is not started again.
func TestBackendKilledForMemory(t *testing.T) {
	configure(t, backends)
	untilCount(t, "example.com/kvm", 1)
	untilCount(t, "example.com/mock", 2)
	agent, killed := process(t), m.Run(t, "%s", backend("device"))
	from := len(m.Changes(t, 0))
	m.Run(t, `cgroup=/sys/fs/cgroup$(cut -d: -f3 /proc/%[1]s/cgroup); echo 0 >$cgroup/memory.swap.max; echo 1M >$cgroup/memory.max
		grep -q 'oom_kill [1-9]' $cgroup/memory.events || dmesg | tail -n 20 | grep "Killed process %[1]s"`, killed)
	if !patience.Within(machine.Limit, func() bool {
		out := m.Try(t, "%s", backend("device"))
		return out.Status == 0 && strings.TrimSpace(out.Text) != killed
	}) {
		t.Error("the backend is not started again")
	}
	untilCount(t, "example.com/kvm", 1)
	if now := process(t); now != agent {
		t.Errorf("the agent's process was %s, and is %s", agent, now)
	}
	for _, c := range m.Changes(t, from) {
		if c.Resource == "example.com/mock" && len(c.Devices) != 2 {
			t.Errorf("kubelet's list of another backend's devices was %q", c.Devices)
		}
	}
}
