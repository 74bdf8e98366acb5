package deployments

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const unit = "deployments/systemd/accelmux.service"

// TestMPSUnit verifies that systemd understands every line of the unit of MPS's control
// daemon, and that the agent's unit starts no daemon that would end with it.
func TestMPSUnit(t *testing.T) {
	if !strings.Contains(string(read(t, unit)), "ExecStart=/usr/bin/accelmux run --companions=false ") {
		t.Error("the agent's unit starts companions")
	}
	needSystemd(t)
	text := strings.ReplaceAll(string(read(t, "deployments/systemd/accelmux-nvidia-mps.service")), "/usr/libexec/accelmux", bin)
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", write(t, "accelmux-nvidia-mps.service", text)).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// TestUnit verifies that systemd understands every line of the unit.
func TestUnit(t *testing.T) {
	needSystemd(t)
	text := strings.ReplaceAll(string(read(t, unit)), "/usr/bin/accelmux", filepath.Join(bin, "accelmux"))
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", write(t, "accelmux.service", text)).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	// Without it systemd ends the agent when the kernel kills a backend for its memory.
	if !strings.Contains(text, "\nOOMPolicy=continue\n") {
		t.Error("the unit has no OOMPolicy=continue")
	}
}

// TestDropIns verifies that systemd understands every line of the drop-ins that the
// README shows, on top of the unit.
func TestDropIns(t *testing.T) {
	needSystemd(t)
	text := strings.ReplaceAll(string(read(t, unit)), "/usr/bin/accelmux", filepath.Join(bin, "accelmux"))
	shown := regexp.MustCompile(`(?m)(^    (.+)?\n|^\n)+`).FindAllString(string(read(t, "deployments/systemd/README.md")), -1)
	found := 0
	for _, block := range shown {
		dropIn := strings.ReplaceAll("\n"+strings.Trim(block, "\n"), "\n    ", "\n")
		if !strings.HasPrefix(dropIn, "\n[") {
			continue
		}
		found++
		out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", write(t, "accelmux.service", text+dropIn+"\n")).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("systemd-analyze verify: %v\n%s\nof%s", err, out, dropIn)
		}
	}
	if found < 6 {
		t.Errorf("the README shows %d drop-ins, want all six of them", found)
	}
}

// TestExposure verifies the figure that the README gives. Systems differ by what
// their systemd knows, so a better one is fine.
func TestExposure(t *testing.T) {
	needSystemd(t)
	stated := regexp.MustCompile(`rates its exposure ([0-9.]+) of 10`).FindSubmatch(read(t, "deployments/systemd/README.md"))
	if stated == nil {
		t.Fatal("the README states no exposure")
	}
	limit, err := strconv.ParseFloat(string(stated[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	threshold := strconv.Itoa(int(limit*10 + 0.5)) // in tenths
	must(t, "systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold="+threshold, filepath.Join(root, unit))
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
