package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/test/patience"
)

// With no more files to open, the agent goes on serving what it serves: kubelet hears of
// a fault, and a container gets its devices. What it can't do meanwhile, as to start a
// backend that died or to connect to another kubelet, status says, and it does it as soon
// as it can.
func TestDescriptorsExhausted(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.startKubelet()
	n.configure(strings.Replace(twoBackends, "holdover: 500ms", "holdover: 1h", 1))
	p := n.runProgram()
	n.wantCounts(gpu, 4, 4)
	n.wantCounts(fpga, 2, 2)
	victim := 0
	n.eventually("the backend's process is known", func() bool { victim = p.backend("other").PID; return victim != 0 })
	kept := p.connected()
	limit, lifted := p.limitFiles()

	limit(p.nextFile())
	n.scenario("devices: {mock-0: {fault: {code: x, recovery: self}}}")
	n.wantCounts(gpu, 4, 3)
	n.mark(gpu)
	n.mark(fpga)
	n.allocate("meanwhile", gpu, 2)
	n.kill(victim, unix.SIGKILL)
	// For the pipe to it, or for what is opened after that.
	p.wantTrouble(kept, "other  : ", "too many open files")
	n.allocate("later", fpga, 1)
	n.wantNoDip(gpu, 3)
	n.wantNoDip(fpga, 2)

	// The files of the dead backend are free again; now it may not have these either.
	limit(0)
	n.restartKubelet()
	for _, resource := range []string{gpu, fpga} {
		p.wantTrouble(kept, resource+" : cannot connect to kubelet on "+n.path("kubelet", "device-plugins", "kubelet.sock"), "too many open files")
		if r := n.kubelet.State().Resources[resource]; r.Connections != 0 {
			t.Errorf("kubelet has %d connections of %s, want none yet", r.Connections, resource)
		}
	}
	lifted()
	n.scenario("")
	n.wantCounts(gpu, 4, 4)
	n.wantCounts(fpga, 2, 2)
	n.eventually("the backend runs again", func() bool { pid := p.backend("other").PID; return pid != 0 && pid != victim })
	n.eventually("no problem is left", func() bool { r := p.report(); return r.PID == p.pid() && len(r.Problems) == 0 })
	n.allocate("after", gpu, 1)
}

// connected is the agent's report over a connection that was made before, as somebody has
// who asks again and again.
func (p *program) connected() func() status.Report {
	p.Helper()
	transport := &http.Transport{MaxConnsPerHost: 1, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(p.runDir, status.SocketName))
	}}
	p.Cleanup(transport.CloseIdleConnections)
	// One that gave up would close the connection, and get no other.
	client := &http.Client{Transport: transport, Timeout: patience.Long}
	report := func() (report status.Report) {
		response, err := client.Get("http://accelmux/v1/status")
		if err != nil {
			return report
		}
		err = json.NewDecoder(response.Body).Decode(&report)
		_, rest := io.Copy(io.Discard, response.Body) // or the connection is not used again
		if err := errors.Join(err, rest, response.Body.Close()); err != nil {
			p.Error(err)
		}
		return report
	}
	p.eventually("the agent answers", func() bool { return report().PID == p.pid() })
	return report
}

// wantTrouble waits until a report says a sentence that begins so and has this in it.
func (p *program) wantTrouble(report func() status.Report, begins, has string) {
	p.Helper()
	p.eventually(fmt.Sprintf("status says %q… %q", begins, has), func() bool {
		return slices.ContainsFunc(sentences(report()), func(line string) bool {
			return strings.HasPrefix(strings.TrimSpace(line), begins) && strings.Contains(line, has)
		})
	})
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

// limitFiles has limit let the agent open no file whose number is not below a limit, and
// lifted give it back what it had.
func (p *program) limitFiles() (limit func(uint64), lifted func()) {
	p.Helper()
	var before unix.Rlimit
	if err := unix.Prlimit(p.pid(), unix.RLIMIT_NOFILE, nil, &before); err != nil {
		p.Fatal(err)
	}
	limit = func(most uint64) {
		p.Helper()
		if err := unix.Prlimit(p.pid(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: before.Max}, nil); err != nil {
			p.Fatal(err)
		}
	}
	return limit, func() { p.Helper(); limit(before.Cur) }
}
