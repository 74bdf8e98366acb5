package devicemanager

import (
	"context"
	"errors"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stubEnv makes this test binary the program.
const stubEnv = "ACCELMUX_TEST_DEVICEMANAGER"

func TestMain(m *testing.M) {
	if os.Getenv(stubEnv) == "" {
		os.Exit(m.Run())
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go func() {
		<-ended
		os.Exit(0)
	}()
	server := rpc.NewServer()
	if err := server.RegisterName("Kubelet", stub{}); err != nil {
		os.Exit(1)
	}
	server.ServeCodec(jsonrpc.NewServerCodec(struct {
		io.Reader
		io.WriteCloser
	}{os.Stdin, os.Stdout}))
}

// stub answers what a kubelet with one resource might.
type stub struct{}

func (stub) Start(o Options, about *About) error {
	if o.Dir == "" {
		return errors.New("no directory")
	}
	*about = About{Release: "v1.0.0", Refused: map[string]Verdict{}}
	for _, r := range o.Pods {
		about.Refused[string(r.Pod.UID)] = Verdict{Reason: "Stub"}
	}
	return nil
}

func (stub) Resources(struct{}, *map[string]Resource) error { select {} }

func (stub) Devices(c struct{ Pod, Name string }, devices *map[string][]struct{ ID string }) error {
	*devices = map[string][]struct{ ID string }{c.Pod + "/" + c.Name: {{"a"}, {"b"}}}
	return nil
}

func startStub(t *testing.T, opts Options) (*Process, error) {
	t.Helper()
	t.Setenv(stubEnv, "1")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Start(self, nil, opts)
}

// Verifies that a process answers, that a call ends with its context, and that the
// process ends well when it is told to, after which calls fail.
func TestProcess(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
	p, err := startStub(t, Options{Dir: t.TempDir(), Pods: []Running{{Pod: pod}}})
	if err != nil {
		t.Fatal(err)
	}
	if about := p.About(); about.Release != "v1.0.0" || about.Refused["u"].Reason != "Stub" {
		t.Errorf("it says of itself %+v", about)
	}
	if held, err := p.Devices(t.Context(), "u", "main"); err != nil || !slices.Equal(held["u/main"], []string{"a", "b"}) {
		t.Errorf("it says that %v is held, %v", held, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := p.Resources(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that nobody answers ends with %v", err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := p.Devices(t.Context(), "u", "main"); err == nil {
		t.Error("a process that has ended answers")
	}
}

// Verifies that a kubelet which does not start, and one that is killed, are errors as
// sentences, and leave no process.
func TestProcessEnds(t *testing.T) {
	if _, err := startStub(t, Options{}); err == nil || !strings.Contains(err.Error(), "no directory") {
		t.Errorf("a kubelet without a directory: %v", err)
	}
	if _, err := Start(t.TempDir()+"/none", nil, Options{}); err == nil {
		t.Error("a program that is not there was started")
	}
	p, err := startStub(t, Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
	if _, err := p.Admit(t.Context(), &v1.Pod{}); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("a killed one says %v", err)
	}
	if err := syscall.Kill(p.cmd.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("a killed one is still there: %v", err)
	}
}
