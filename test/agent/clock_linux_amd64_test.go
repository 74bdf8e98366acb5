package agent

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/test/host"
)

// clock is the wall clock of one process, as it reads it: through the kernel's vDSO, in
// its own memory (vdso(7)). There, clock_gettime is made to ask the kernel and to add a
// step to the answer for CLOCK_REALTIME; that is what a process sees if somebody sets the
// clock. CLOCK_MONOTONIC is not touched, as it is not by that, nor are the times of
// files, which are then from before the step.
type clock struct {
	pid  int
	step int64 // address of the step, in seconds
}

// newClock takes over the clock of a running process. A test that may not do that is
// skipped.
func newClock(t *testing.T, pid int) *clock {
	t.Helper()
	start, end := vdso(t, pid)
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		host.Lacks(t, "another process's memory cannot be written here: %v", err)
	}
	defer func() { _ = memory.Close() }()
	image := make([]byte, end-start)
	if _, err := io.ReadFull(io.NewSectionReader(memory, start, end-start), image); err != nil {
		host.Lacks(t, "another process's vDSO cannot be read here: %v", err)
	}
	entry := symbol(t, image, "__vdso_clock_gettime")
	// What follows the ELF image in its last page is empty.
	room := len(bytes.TrimRight(image, "\x00")) + 16
	code := []byte{
		0xb8, 228, 0, 0, 0, // mov eax, SYS_clock_gettime
		0x0f, 0x05, // syscall
		0x85, 0xff, // test edi, edi: CLOCK_REALTIME is 0
		0x75, 14, // jne to the end
		0x85, 0xc0, // test eax, eax: it failed
		0x75, 10, // jne to the end
		0x48, 0x8b, 0x0d, 4, 0, 0, 0, // mov rcx, the 8 bytes after the end
		0x48, 0x01, 0x0e, // add [rsi], rcx: tv_sec
		0xc3, // the end: ret
		0, 0, 0, 0, 0, 0, 0, 0,
	}
	if room+len(code) > len(image) {
		host.Lacks(t, "there is no room behind the vDSO here")
	}
	jump := binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(room-(entry+5))) //nolint:gosec // of two places in one image
	for _, part := range []struct {
		at   int
		code []byte
	}{{room, code}, {entry, jump}} {
		if _, err := memory.WriteAt(part.code, start+int64(part.at)); err != nil {
			host.Lacks(t, "another process's vDSO cannot be written here: %v", err)
		}
	}
	return &clock{pid: pid, step: start + int64(room+len(code)-8)}
}

// set steps the process's clock, from the real one.
func (c *clock) set(t *testing.T, step time.Duration) {
	t.Helper()
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", c.pid), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = memory.Close() }()
	if _, err := memory.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(step/time.Second)), c.step); err != nil { //nolint:gosec // two's complement
		t.Fatal(err)
	}
}

// vdso is where a process has it.
func vdso(t *testing.T, pid int) (start, end int64) {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.Contains(line, "[vdso]") {
			continue
		}
		from, rest, _ := strings.Cut(line, "-")
		to, _, _ := strings.Cut(rest, " ")
		start, err1 := strconv.ParseInt(from, 16, 64)
		end, err2 := strconv.ParseInt(to, 16, 64)
		if err1 != nil || err2 != nil {
			t.Fatalf("line of /proc/%d/maps: %s", pid, line)
		}
		return start, end
	}
	host.Lacks(t, "there is no vDSO here")
	return 0, 0
}

// symbol is the place of a function in an ELF image.
func symbol(t *testing.T, image []byte, name string) int {
	t.Helper()
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Name == name {
			return int(s.Value) //nolint:gosec // within the image
		}
	}
	host.Lacks(t, "the vDSO here has no %s", name)
	return 0
}

// A clock that is set by an hour, to either side, while everything runs changes nothing:
// no device is lost for a moment, no backend is taken for one that hangs, no holder is
// forgotten. A fault is known at once, heals in its time, and kubelet is found again.
func TestClockStepped(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.startKubelet()
			n.configure(strings.Replace(twoBackends, "recovery: {delay: 0s}", "recovery: {delay: 500ms}", 1))
			p := n.runProgram()
			n.wantCounts(gpu, 4, 4)
			n.wantCounts(fpga, 2, 2)
			held := n.allocate("before", gpu, 1)
			pids := []int{p.pid()}
			for _, name := range []string{"mock", "other"} {
				n.eventually("backend "+name+" runs", func() bool { return p.backend(name).PID != 0 })
				pids = append(pids, p.backend(name).PID)
			}
			for _, pid := range pids {
				newClock(t, pid).set(t, step)
			}
			n.mark(gpu)
			n.mark(fpga)
			// On streams, and against intervals, from before.
			n.scenario("devices: {mock-3: {fault: {code: x, recovery: self}}}")
			n.wantCounts(gpu, 4, 3)
			n.scenario("")
			n.wantCounts(gpu, 4, 4)
			n.wantNoDip(gpu, 3)
			n.wantNoDip(fpga, 2)
			n.eventually("the agent has the other time", func() bool {
				if err := n.kubelet.Restart(); err != nil {
					t.Fatal(err)
				}
				n.wantCounts(gpu, 4, 4)
				n.wantCounts(fpga, 2, 2)
				return n.stamped(step)
			})
			n.allocate("after", gpu, 2)
			report := p.report()
			for i, name := range []string{"mock", "other"} {
				if b := report.Backends[i]; b.Name != name || b.PID != pids[i+1] || b.Restarts != 0 {
					t.Errorf("backend %s was restarted: %+v", name, b)
				}
			}
			if len(report.Problems) > 0 {
				t.Errorf("problems: %+v", report.Problems)
			}
			n.stopAgent()
			// The next agent finds times that lie an hour ahead, or back.
			n.startAgent()
			n.wantCounts(gpu, 4, 4)
			n.eventually("the holder is known", func() bool { return len(n.device(held[0]).Holders) == 1 })
			if problems := n.problems(); problems != "" {
				t.Errorf("after a restart: %s", problems)
			}
		})
	}
}

// stamped reports whether the log has a line from about so long after now.
func (n *node) stamped(step time.Duration) bool {
	lines := strings.Split(strings.TrimSpace(n.log.String()), "\n")
	text, _, _ := strings.Cut(strings.TrimPrefix(lines[len(lines)-1], "time="), " ")
	at, err := time.Parse(time.RFC3339Nano, text)
	off := time.Until(at) - step
	return err == nil && off.Abs() < 10*time.Minute
}
