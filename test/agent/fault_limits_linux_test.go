package agent

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// limit lets the agent have no more of a resource, and lifted gives it back what it had.
func (p *program) limit(resource int, most uint64) (lifted func()) {
	p.Helper()
	var before unix.Rlimit
	if err := unix.Prlimit(p.pid(), resource, nil, &before); err != nil {
		p.Fatal(err)
	}
	set := func(most uint64) {
		p.Helper()
		if err := unix.Prlimit(p.pid(), resource, &unix.Rlimit{Cur: most, Max: before.Max}, nil); err != nil {
			p.Fatal(err)
		}
	}
	set(most)
	return func() { p.Helper(); set(before.Cur) }
}

// wantTrouble waits until a problem has all the parts.
func (p *program) wantTrouble(parts ...string) {
	p.Helper()
	p.eventually(fmt.Sprintf("status has a problem with %q", parts), func() bool {
		return slices.ContainsFunc(p.problems(), func(line string) bool { return hasAll(line, parts) })
	})
}

// With no more files to open, the agent goes on serving what it serves: kubelet hears of
// a fault, and a container gets its devices. What it can't do meanwhile, as to start a
// backend that died or to connect to another kubelet, it logs, and does it as soon as it can.
func TestDescriptorsExhausted(t *testing.T) {
	t.Parallel()
	n, p := startFirst(t, strings.Replace(twoBackends, "holdover: 500ms", "holdover: 1h", 1))
	n.wantCounts(fpga, 2, 2)
	victim := 0
	n.eventually("the backend's process is known", func() bool { victim = p.backend("other").PID; return victim != 0 })

	lifted := p.limit(unix.RLIMIT_NOFILE, p.nextFile())
	n.scenario("devices: {mock-0: {fault: {code: x, recovery: self}}}")
	n.wantCounts(gpu, 4, 3)
	n.mark(gpu)
	n.mark(fpga)
	n.allocate("meanwhile", gpu, 2)
	n.kill(victim, unix.SIGKILL)
	n.eventually("it is logged that the backend does not start", func() bool { return n.loggedLine("backend=other", "too many open files") })
	n.allocate("later", fpga, 1)
	n.wantNoDip(gpu, 3)
	n.wantNoDip(fpga, 2)

	// The files of the dead backend are free again; now it may not have these either.
	p.limit(unix.RLIMIT_NOFILE, 0)
	n.restartKubelet()
	n.eventually("it is logged that kubelet cannot be reached", func() bool {
		return n.loggedLine("cannot connect to kubelet on "+n.path("kubelet", "device-plugins", "kubelet.sock"), "too many open files")
	})
	lifted()
	n.scenario("")
	n.wantCounts(gpu, 4, 4)
	n.wantCounts(fpga, 2, 2)
	n.eventually("the backend runs again", func() bool { pid := p.backend("other").PID; return pid != 0 && pid != victim })
	n.eventually("no problem is left", func() bool { r := p.report(); return r.PID == p.pid() && len(r.Problems) == 0 })
	n.allocate("after", gpu, 1)
}

// loggedLine reports whether a line of the log has all the parts.
func (n *node) loggedLine(parts ...string) bool {
	return slices.ContainsFunc(strings.Split(n.log.String(), "\n"), func(line string) bool { return hasAll(line, parts) })
}

// nextFile is the number of the file that the agent would open next, the lowest that is
// free: others above it may be taken.
func (p *program) nextFile() uint64 {
	p.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid()))
	if err != nil {
		p.Fatal(err)
	}
	taken := map[string]bool{}
	for _, file := range open {
		taken[file.Name()] = true
	}
	next := uint64(0)
	for taken[strconv.FormatUint(next, 10)] {
		next++
	}
	return next
}

// Where no file can be written any more, as on a full disk, the running backends go on, kubelet gets
// every fault, and status reports which file cannot be written, and which devices have no definition.
// When files can be written again, they are, and their content is used after a restart.
func TestFilesCannotBeWritten(t *testing.T) {
	t.Parallel()
	n, p := startFirst(t, oneBackend)
	lifted := p.limit(unix.RLIMIT_FSIZE, 0)
	n.scenario("devices: {mock-0: {fault: {code: lost, recovery: reboot}}}\nplug: [{count: 2, id: 'new-{{.Index}}'}]")
	n.wantCounts(gpu, 6, 3)
	held := n.allocate("meanwhile", gpu, 1)
	p.wantTrouble("health", "is not being saved", "file too large")
	p.wantTrouble("record of allocations cannot be written", "file too large")
	p.wantTrouble("new-0", "cdi/accelmux-mock-gpu.json", "file too large")
	lifted()
	n.wantCounts(gpu, 6, 5)
	n.eventually("all is written", func() bool { return n.saved("health", "mock-0") && n.saved("usage", held[0]) })
	n.scenario("")
	p.end()
	n.startAgent()
	n.wantCounts(gpu, 4, 3)
	n.wantFault("mock-0", "lost")
	n.wantHeldBy(held[0], "meanwhile")
}
