package nvidia

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/patience"
)

// tool is a stand-in for nvidia-smi: it reports its arguments, waits for end, and exits with
// the status and output given there.
type tool struct {
	r      *rig
	path   string
	called *os.File
	goOn   *os.File
}

// newTool writes the stand-in to a path in the rig.
func newTool(r *rig) *tool {
	r.t.Helper()
	tool := &tool{r: r, called: r.fifo("called"), goOn: r.fifo("go")}
	script := fmt.Sprintf("#!/bin/sh\necho \"$@\" > %s\nread code text < %s\necho \"$text\"\nexit \"$code\"\n", r.path("called"), r.path("go"))
	tool.path = r.files.Program("nvidia-smi", script)
	return tool
}

// fifo makes a named pipe, and opens both of its ends.
func (r *rig) fifo(parts ...string) *os.File {
	r.t.Helper()
	path := r.path(parts...)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		r.t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = file.Close() })
	return file
}

// called waits for what nvidia-smi writes to a named pipe when it is called.
func (r *rig) called(pipe *os.File) string {
	r.t.Helper()
	if err := pipe.SetReadDeadline(time.Now().Add(patience.Long)); err != nil {
		r.t.Fatal(err)
	}
	line := make([]byte, 4096)
	n, err := pipe.Read(line)
	if err != nil {
		r.t.Fatalf("nvidia-smi was not called: %v", err)
	}
	return strings.TrimSpace(string(line[:n]))
}

// settings returns settings that use the stand-in, with more of them.
func (tool *tool) settings(more string) string {
	return fmt.Sprintf(`{"edits": {"mode": "runtime"}, "rescan": "1s", "reset": {"tool": %q}%s}`, tool.path, more)
}

// call waits for a call and returns its arguments.
func (tool *tool) call() string {
	tool.r.t.Helper()
	return tool.r.called(tool.called)
}

// end lets the call exit.
func (tool *tool) end(code int, text string) {
	tool.r.t.Helper()
	if _, err := fmt.Fprintf(tool.goOn, "%d %s\n", code, text); err != nil {
		tool.r.t.Fatal(err)
	}
}

// idle checks that the tool was not called.
func (tool *tool) idle() {
	tool.r.t.Helper()
	if err := tool.called.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		tool.r.t.Fatal(err)
	}
	if n, err := tool.called.Read(make([]byte, 1)); err == nil {
		tool.r.t.Errorf("nvidia-smi was called (%d)", n)
	}
}

// answer is the result of a Reset.
type answer struct {
	results []*backendv1.ResetResult
	err     error
}

// reset calls Reset concurrently.
func (r *rig) reset(ids ...string) <-chan answer {
	done := make(chan answer, 1)
	ctx := r.t.Context()
	go func() {
		res, err := r.Reset(ctx, &backendv1.ResetRequest{DeviceIds: ids})
		done <- answer{res.GetResults(), err}
	}()
	return done
}

// outcome waits for a Reset and checks that all its results are equal.
func (r *rig) outcome(done <-chan answer, n int) (recovered bool, message string) {
	r.t.Helper()
	var got answer
	r.During(func() { got = <-done })
	if got.err != nil || len(got.results) != n {
		r.t.Fatalf("Reset: %v, %v, want %d results", got.results, got.err, n)
	}
	for _, result := range got.results[1:] {
		if result.GetRecovered() != got.results[0].GetRecovered() {
			r.t.Errorf("results differ: %v", got.results)
		}
	}
	return got.results[0].GetRecovered(), got.results[0].GetMessage()
}

// ids returns the device IDs of an inventory.
func ids(inv *backendv1.Inventory) []string {
	var all []string
	for _, d := range inv.GetDevices() {
		all = append(all, d.GetId())
	}
	return all
}
