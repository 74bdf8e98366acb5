package deployments

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const unit = "deployments/systemd/accelmux.service"

// verify has systemd check every line of a unit.
func verify(t *testing.T, name, text string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", write(t, name, text)).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s\nof\n%s", err, out, text)
	}
}

// TestUnits verifies that systemd understands every line of the agent's unit, of the drop-ins
// for it that the README shows, and of the unit of MPS's control daemon; and that the agent
// neither ends when the kernel kills a backend for its memory, nor is kept from seeing the
// node's interfaces.
func TestUnits(t *testing.T) {
	needSystemd(t)
	text := strings.ReplaceAll(string(read(t, unit)), "/usr/bin/accelmux", filepath.Join(bin, "accelmux"))
	verify(t, "accelmux.service", text)
	if !strings.Contains(text, "\nOOMPolicy=continue\n") {
		t.Error("the unit has no OOMPolicy=continue")
	}
	// systemd mounts a sysfs without the node's interfaces for a service in a network namespace of its own (not yet 252).
	if strings.Contains(text, "\nPrivateNetwork=") || !strings.Contains(text, "\nRestrictAddressFamilies=AF_UNIX AF_NETLINK\n") {
		t.Error("the unit has PrivateNetwork=, so that backends see no interface, or sockets of a network")
	}
	mps := string(read(t, "deployments/systemd/accelmux-nvidia-mps.service"))
	verify(t, "accelmux-nvidia-mps.service", strings.ReplaceAll(mps, "/usr/libexec/accelmux", bin))
	shown := regexp.MustCompile(`(?m)(^    (.+)?\n|^\n)+`).FindAllString(string(read(t, "deployments/systemd/README.md")), -1)
	found := 0
	for _, block := range shown {
		dropIn := strings.ReplaceAll("\n"+strings.Trim(block, "\n"), "\n    ", "\n")
		if strings.HasPrefix(dropIn, "\n[") {
			found++
			verify(t, "accelmux.service", text+dropIn+"\n")
		}
	}
	if found < 6 {
		t.Errorf("the README shows %d drop-ins, want all six of them", found)
	}
}

// TestUnitSandbox verifies, with this machine's systemd, what is in force of the backends' sandbox under the unit, and
// with the drop-in for mounts that the README shows; and that the agent finds kubelet's root directory, and may write there,
// though kubelet makes it after the agent's start; that backends see the node's network interfaces in sysfs, which the unit
// would take away with PrivateNetwork=yes; and that the directory of their sockets has a size of its own.
func TestUnitSandbox(t *testing.T) {
	needSystemd(t)
	if os.Geteuid() != 0 {
		lacks(t, "systemd is booted in namespaces, which needs root")
	}
	mounts := regexp.MustCompile(`(?m)^    \[Service\]\n    CapabilityBoundingSet=CAP_SYS_ADMIN\n(    .+\n)+`).Find(read(t, "deployments/systemd/README.md"))
	if mounts == nil {
		t.Fatal("the README has no drop-in for mounts")
	}
	for dropIn, missing := range map[string][]string{"": {"mounts"}, strings.ReplaceAll(string(mounts), "    ", ""): nil} {
		dir := t.TempDir()
		text := must(t, filepath.Join(root, "test/deployments/systemd.sh"), bin, filepath.Join(root, unit), write(t, "drop-in.conf", dropIn), dir)
		var status struct {
			KubeletDir, KubeletRootDir string
			Backends                   []struct {
				Name    string
				Devices int
				Sandbox struct {
					Measures []struct {
						Name    string
						InForce bool
					}
				}
			}
		}
		if err := json.Unmarshal([]byte(text), &status); err != nil || len(status.Backends) != 2 {
			t.Fatalf("%v, status\n%s", err, text)
		}
		if mount, err := os.ReadFile(filepath.Join(dir, "out", "mounts")); err != nil || !strings.Contains(string(mount), "tmpfs rw,") || !strings.Contains(string(mount), "size=1024k,nr_inodes=1024,mode=711") {
			t.Errorf("the backends' sockets are not on a file system with a size of its own: %v\n%s", err, mount)
		}
		if status.KubeletDir != "/var/lib/kubelet" || status.KubeletRootDir != "/var/lib/k0s/kubelet" {
			t.Errorf("kubelet's directories are %q and %q", status.KubeletDir, status.KubeletRootDir)
		}
		for _, b := range status.Backends {
			if b.Name == "device" && b.Devices != 1 {
				t.Errorf("with the drop-in %q: %d network interfaces of the node are devices, want 1\n%s", dropIn, b.Devices, text)
			}
			for _, m := range b.Sandbox.Measures {
				// Where systemd has cgroups of version 1, the service gets none of version 2.
				if want := !slices.Contains(missing, m.Name); m.Name != "cgroup" && m.InForce != want || len(b.Sandbox.Measures) < 12 {
					t.Errorf("with the drop-in %q: %s is in force: %v\n%s", dropIn, m.Name, m.InForce, text)
				}
			}
		}
	}
}

// TestExposure verifies the exposure that the README states. A newer systemd may rate it lower.
func TestExposure(t *testing.T) {
	needSystemd(t)
	stated := regexp.MustCompile(`rates its exposure ([0-9]+)\.([0-9]) of 10`).FindSubmatch(read(t, "deployments/systemd/README.md"))
	if stated == nil {
		t.Fatal("the README states no exposure")
	}
	tenths := string(stated[1]) + string(stated[2])
	must(t, "systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold="+tenths, filepath.Join(root, unit))
}

func needSystemd(t *testing.T) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "--version").Output()
	version := regexp.MustCompile(`^systemd (\d+)`).FindSubmatch(out)
	if err != nil || version == nil {
		lacks(t, "there is no systemd-analyze here")
	}
	if n, err := strconv.Atoi(string(version[1])); err != nil || n < 252 {
		lacks(t, "systemd is older than 252, which the figures are from")
	}
}
