package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// childName is the child's argv[0], by which it recognizes its task.
	childName = "accelmux-check-settings"
	// maxMemory is how many bytes the child may use in addition to those it has at its
	// start, and maxSeconds how much processor time. The kernel ends a child that exceeds
	// them.
	maxMemory  = 128 << 20
	maxSeconds = 10
	// maxOutput bounds the child's output, in bytes.
	maxOutput = 1 << 20
)

// question is what the child reads, answer what it prints; both are JSON.
type question struct {
	Schema   string          `json:"schema"`
	Settings json.RawMessage `json:"settings"`
}

type answer struct {
	// Broken is why the schema cannot be used; "" if it can.
	Broken string       `json:"broken,omitempty"`
	Fields []FieldError `json:"fields,omitempty"`
}

// Check checks settings against a schema, in a child process that ends before Check
// returns. It returns at most 64 errors of the settings; none if the schema accepts them.
// An error means that the settings were not checked: the schema cannot be used, the check
// exceeded its time or memory, or the child could not be started. Both may contain texts of
// the schema as they are, which may be unprintable.
func Check(ctx context.Context, run func(*exec.Cmd) error, schema string, settings json.RawMessage) ([]FieldError, error) {
	if !json.Valid(settings) {
		return []FieldError{{Message: "not valid JSON"}}, nil
	}
	input, err := json.Marshal(question{schema, settings})
	if err != nil {
		return nil, err
	}
	var output limitedBuffer
	child := exec.CommandContext(ctx, "/proc/self/exe")
	child.Args = []string{childName}
	// One thread for Go code, and a heap that is collected before it reaches its limit.
	child.Env = []string{"GOMAXPROCS=1", fmt.Sprintf("GOMEMLIMIT=%d", maxMemory/2), "GOTRACEBACK=none"}
	child.Stdin, child.Stdout = bytes.NewReader(input), &output
	child.WaitDelay = time.Second
	// The kernel kills the child when this process is killed: it sends the signal at the end
	// of the thread that started the child (PR_SET_PDEATHSIG(2const)).
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := run(child); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return nil, fmt.Errorf("checking the settings took more than %d MiB of memory or %d s of processor time, or failed: %w",
				maxMemory>>20, maxSeconds, err)
		}
		return nil, fmt.Errorf("start the process that checks the settings: %w", err)
	}
	var a answer
	if err := json.Unmarshal(output.Bytes(), &a); err != nil {
		return nil, fmt.Errorf("read the result of the check: %w", err)
	}
	if a.Broken != "" {
		return nil, errors.New(a.Broken)
	}
	return a.Fields, nil
}

// limitedBuffer accepts at most maxOutput bytes.
type limitedBuffer struct{ bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxOutput {
		return 0, errors.New("the child prints too much")
	}
	return b.Buffer.Write(p)
}

// A process that Check started does nothing else. An init function ensures that for every
// program and test that uses the package.
func init() {
	if len(os.Args) != 1 || os.Args[0] != childName {
		return
	}
	if err := runChild(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // the child's main
	}
	os.Exit(0) //nolint:forbidigo // the child's main
}

func runChild(in io.Reader, out io.Writer) error {
	if err := limit(); err != nil {
		return fmt.Errorf("limit the check: %w", err)
	}
	var q question
	if err := json.NewDecoder(in).Decode(&q); err != nil {
		return fmt.Errorf("read the question: %w", err)
	}
	var a answer
	var err error
	if a.Fields, err = validate(q.Schema, q.Settings); err != nil {
		a.Broken = cut(err.Error())
	}
	return json.NewEncoder(out).Encode(a)
}

// limit bounds this process's memory and processor time, and disables core files.
func limit() error {
	// The sixth number of statm is data and stack in pages, see proc(5). A Go program has
	// mapped some memory before it does anything.
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return err
	}
	var size, resident, shared, text, lib, data uint64
	if _, err := fmt.Sscan(string(statm), &size, &resident, &shared, &text, &lib, &data); err != nil {
		return fmt.Errorf("/proc/self/statm: %w", err)
	}
	for resource, most := range map[int]uint64{
		unix.RLIMIT_DATA: data*uint64(os.Getpagesize()) + maxMemory, //nolint:gosec // positive
		unix.RLIMIT_CPU:  maxSeconds,
		unix.RLIMIT_CORE: 0,
	} {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return err
		}
	}
	return nil
}
