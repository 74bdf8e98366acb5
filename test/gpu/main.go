//go:build cgo

// Command gpu compares what package backends/nvidia/driver reads from the real
// driver with what nvidia-smi says, field by field: the GPUs and their MIG devices,
// their condition, the links between them, the telemetry. It makes the container
// edits of this host and looks whether what is in them is there, and registers for
// events. It only reads. Without a GPU, a driver or nvidia-smi it fails, as nothing was
// tested. README.md, beside this file, explains the output.
//
//	go run ./test/gpu
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/edits"
	"github.com/accelmux/accelmux/backends/sdk"
)

const (
	// limit bounds everything together.
	limit = 2 * time.Minute
	// callLimit bounds one call to the driver.
	callLimit = 10 * time.Second
	// rounds is how often what moves is read before it counts as different.
	rounds = 3
)

// options say where everything is.
type options struct {
	library, smi string
	edits        edits.Settings
	host         sdk.HostPaths
}

func main() {
	var o options
	flag.StringVar(&o.library, "library", "", "`path` of libnvidia-ml.so.1; looked for below the driver root if empty")
	flag.StringVar(&o.smi, "nvidia-smi", "nvidia-smi", "`program` to compare with")
	flag.StringVar(&o.edits.DriverRoot, "driver-root", "/", "`directory` in which the driver is installed")
	flag.StringVar(&o.edits.Hook, "hook", "/usr/bin/nvidia-cdi-hook", "`path` of nvidia-cdi-hook")
	flag.StringVar(&o.host.Devfs, "devfs", "/dev", "`directory` of the device nodes")
	flag.StringVar(&o.host.Procfs, "procfs", "/proc", "`directory` of procfs")
	flag.StringVar(&o.host.Sysfs, "sysfs", "/sys", "`directory` of sysfs")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "FAILED: give flags only, not %q; -help says which there are\n", flag.Args())
		os.Exit(1)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := &comparison{}
	err := check(ctx, o, c)
	if missing := (missing{}); errors.As(err, &missing) {
		fmt.Fprintln(os.Stderr, "FAILED, nothing was tested:", missing.why)
		os.Exit(1)
	}
	for _, line := range c.lines() {
		fmt.Println(line)
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "FAILED:", err)
		os.Exit(1)
	case len(c.differences) > 0:
		fmt.Fprintf(os.Stderr, "FAILED: %d of %d answers are not as they should be:\n%v\n", len(c.differences), c.compared, errors.Join(c.differences...))
		os.Exit(1)
	}
	fmt.Printf("OK: %d answers about %d GPUs are as they should be\n", c.compared, c.gpus)
}

// missing is what the comparison needs and this machine lacks.
type missing struct{ why string }

func (m missing) Error() string { return m.why }

func check(ctx context.Context, o options, c *comparison) (err error) {
	d := driver.New(driver.Options{Library: o.library, Root: o.edits.DriverRoot, Timeout: callLimit})
	if err := d.Open(ctx); errors.Is(err, driver.ErrNoLibrary) || errors.Is(err, driver.ErrNoDriver) {
		return missing{fmt.Sprintf("no NVIDIA GPU answers: %v", err)}
	} else if err != nil {
		return err
	}
	defer func() {
		// The call ends what Listen began, too.
		err = errors.Join(err, d.Close(context.WithoutCancel(ctx)))
	}()
	ours, err := d.Snapshot(ctx)
	if err != nil {
		return err
	}
	if c.gpus = len(ours.GPUs); c.gpus == 0 {
		return missing{"the NVIDIA driver is loaded and has no GPU"}
	}
	program, err := exec.LookPath(o.smi)
	if err != nil {
		return missing{fmt.Sprintf("%s is missing, to compare %d GPUs with", o.smi, c.gpus)}
	}
	smi := tool{program}
	theirs, err := smi.report(ctx)
	if err != nil {
		return err
	}
	c.snapshot(ours, theirs)
	c.queried(ctx, ours, smi)
	c.links(ctx, ours, smi)
	c.edits(&ours, o)
	return errors.Join(c.events(ctx, d, ours), measured(ctx, d, smi, c))
}

// measured compares the telemetry. What moves may have moved between two readings,
// so only what differs in every round is a difference.
func measured(ctx context.Context, d *driver.Driver, smi tool, c *comparison) error {
	for round := 1; ; round++ {
		ours, err := d.Telemetry(ctx)
		if err != nil {
			return err
		}
		theirs, err := smi.report(ctx)
		if err != nil {
			return err
		}
		t := &comparison{}
		if t.telemetry(ours, theirs); len(t.differences) == 0 || round == rounds {
			c.add(t)
			return nil
		}
	}
}
