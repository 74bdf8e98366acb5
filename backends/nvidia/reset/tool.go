package reset

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// places are where distributions and driver containers put the tool, in the
// driver's root.
var places = []string{"/usr/bin/nvidia-smi", "/usr/local/nvidia/bin/nvidia-smi", "/opt/bin/nvidia-smi", "/bin/nvidia-smi"}

const (
	// maxOutput is how much of what the tool says is kept, from the end; a message
	// of the contract has no more room.
	maxOutput = 700
	// killed is how long the tool's output is waited for after it was killed.
	killed = time.Second
)

// find is the tool's path in the driver's root. The error is os.ErrNotExist if it
// is not there.
func (m *Means) find() (string, error) {
	paths := places
	if m.settings.Tool != "" {
		paths = []string{m.settings.Tool}
	}
	for _, path := range paths {
		info, err := os.Stat(filepath.Join(m.root, path))
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("nvidia-smi is not in the driver's root %s (looked for %s): set reset.tool: %w",
		m.root, strings.Join(paths, ", "), os.ErrNotExist)
}

// byTool has the driver reset the GPUs.
func (m *Means) byTool(ctx context.Context, path string, gpus []GPU) (string, error) {
	command := m.command(ctx, path, gpus)
	said := &tail{}
	command.Stdout, command.Stderr = said, said
	err := command.Run()
	what := "nvidia-smi " + strings.Join(command.Args[1:], " ")
	var exit *exec.ExitError
	switch {
	case err == nil:
		return fmt.Sprintf("%s: %s", what, said), nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s did not end in time and was killed: %w; it said: %s", what, ctx.Err(), said)
	case errors.As(err, &exit):
		return "", fmt.Errorf("%s failed (%w): %s", what, err, said)
	}
	return "", fmt.Errorf("%s could not be run in %s: %w", what, m.root, err)
}

// command is the tool's. With the driver's root as its own it finds its libraries,
// and nvidia-persistenced, which it tells to let go of the GPUs meanwhile. It has no
// process group of its own, so that it does not outlive this process.
func (m *Means) command(ctx context.Context, path string, gpus []GPU) *exec.Cmd {
	uuids := make([]string, len(gpus))
	for i, g := range gpus {
		uuids[i] = g.UUID
	}
	command := exec.CommandContext(ctx, path, "--gpu-reset", "-i", strings.Join(uuids, ","))
	command.Dir = "/"
	command.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	if m.root != "/" {
		command.SysProcAttr = &syscall.SysProcAttr{Chroot: m.root}
	}
	command.WaitDelay = killed
	return command
}

// tail keeps the end of what is written, on one line.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if over := len(t.text) - maxOutput; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	if text := strings.Join(strings.Fields(string(t.text)), " "); text != "" {
		return text
	}
	return "(nothing)"
}
