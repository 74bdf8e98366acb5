package tool

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/sysroot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script makes a tool of a shell script.
func script(t *testing.T, body string) (Tool, string) {
	t.Helper()
	path := sysroot.NewFiles(t).Program("smi", "#!/bin/sh\n"+body+"\n")
	tool := Tool{Name: "smi", Paths: []string{"/no/such/smi", path}, Setting: "reset.tool"}
	found, err := tool.Find()
	if err != nil || found != path {
		t.Fatalf("the tool is at %q, %v", found, err)
	}
	return tool, path
}

// A tool gets its arguments and files, and none of the environment; its output is returned.
func TestRun(t *testing.T) {
	tool, path := script(t, `echo "called with: $@"; env | grep -c VENDOR; pwd; cat /proc/self/fd/3`)
	t.Setenv("VENDOR_VISIBLE_DEVICES", "void")
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	said, err := tool.Run(t.Context(), path, Call{Args: []string{"reset", "-d", "0"}, Files: []*os.File{f}})
	if want := "smi reset -d 0: called with: reset -d 0 0 / #!/bin/sh echo"; err != nil || !strings.HasPrefix(said, want) {
		t.Errorf("it said %q, %v, want %q", said, err, want)
	}
}

// The output of a tool that fails is returned, only the end of it if it is long.
func TestFails(t *testing.T) {
	tool, path := script(t, `yes "In use by another client" | head -n 100000; echo "the last word" >&2; exit 255`)
	said, err := tool.Run(t.Context(), path, Call{})
	if err == nil || !strings.Contains(err.Error(), "smi failed (exit status 255)") || !strings.HasSuffix(err.Error(), "the last word") || len(err.Error()) > 1000 {
		t.Errorf("it said %q, %v", said, err)
	}
	if err := os.WriteFile(path, []byte("#!/no/such/shell\n"), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	if _, err := tool.Run(t.Context(), path, Call{}); err == nil || !strings.Contains(err.Error(), "smi could not be run in /") {
		t.Errorf("a tool that cannot be run: %v", err)
	}
	tool, path = script(t, "kill -9 $$")
	if _, err := tool.Run(t.Context(), path, Call{}); err == nil || !strings.Contains(err.Error(), "signal: killed): (nothing)") {
		t.Errorf("a tool that is killed: %v", err)
	}
}

// When the context ends all that the tool has started is killed, too, and so are its remaining
// children when it ends on its own.
func TestKilled(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "alive")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{
		"in time": "exec 4>" + fifo + "; (echo up >&4; tail -f /dev/null) & wait",
		"left":    "exec 4>" + fifo + "; (echo up >&4; tail -f /dev/null) >/dev/null 2>&1 & exit 0",
	} {
		t.Run(name, func(t *testing.T) {
			tool, path := script(t, body)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			result := make(chan error, 1)
			go func() {
				_, err := tool.Run(ctx, path, Call{})
				result <- err
			}()
			// The pipe ends once no process has it open for writing.
			f, err := os.Open(fifo)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = f.Close() }()
			text := make([]byte, 3)
			n, err := f.Read(text)
			if name == "in time" && (err != nil || string(text[:n]) != "up\n") {
				t.Fatalf("it wrote %q, %v", text[:n], err)
			}
			if name == "in time" {
				cancel()
			}
			for err == nil {
				_, err = f.Read(text)
			}
			got := <-result
			if name == "in time" && !errors.Is(got, context.Canceled) || name == "left" && got != nil {
				t.Errorf("it ended with %v", got)
			}
		})
	}
}

// A call whose context has ended runs nothing.
func TestTooLate(t *testing.T) {
	made := filepath.Join(t.TempDir(), "made")
	tool, path := script(t, "echo > "+made)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tool.Run(ctx, path, Call{}); !errors.Is(err, context.Canceled) {
		t.Errorf("too late: %v", err)
	}
	if _, err := os.Stat(made); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was run: %v", err)
	}
}

// A tool in a driver's root has that as its own root.
func TestRoot(t *testing.T) {
	files := sysroot.NewFiles(t)
	file, root := files.Program("usr/bin/smi", ""), files.Root
	tool := Tool{Name: "smi", Root: root, Paths: []string{"/usr/bin/smi"}, Setting: "tool"}
	path, err := tool.Find()
	if err != nil || path != "/usr/bin/smi" {
		t.Fatalf("the tool is at %q, %v", path, err)
	}
	command := tool.command(path, Call{})
	if command.Path != path || command.SysProcAttr.Chroot != root || command.Dir != "/" {
		t.Errorf("it is run as %v with %v in %s", command.Path, command.SysProcAttr, command.Dir)
	}
	tool.Root = ""
	if command := tool.command(path, Call{}); command.SysProcAttr.Chroot != "" {
		t.Errorf("the host's own root is changed to %v", command.SysProcAttr)
	}
	tool.Root = root
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tool.Find(); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "set tool") {
		t.Errorf("a file that is no program: %v", err)
	}
}

func TestCheckPath(t *testing.T) {
	for path, ok := range map[string]bool{"": true, "/opt/smi": true, "smi": false, "/opt/../smi": false, "/opt/": false} {
		if err := CheckPath(path); (err == nil) != ok {
			t.Errorf("%q: %v", path, err)
		}
	}
}
