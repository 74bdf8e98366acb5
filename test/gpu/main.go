//go:build cgo

// Command gpu compares what package backends/nvidia/driver reads from the real
// driver with what nvidia-smi says, field by field, listens to events for a moment,
// and looks at the telemetry. It only reads. Where there is no GPU it says so, and
// that nothing was tested.
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
)

// limit bounds everything together.
const limit = 2 * time.Minute

func main() {
	library := flag.String("library", "", "`path` of libnvidia-ml.so.1; looked for if empty")
	smi := flag.String("nvidia-smi", "nvidia-smi", "`program` to compare with")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	said, err := check(ctx, *library, *smi)
	if missing := (skipped{}); errors.As(err, &missing) {
		fmt.Printf("SKIPPED, NOTHING WAS TESTED: %s\n", missing.why)
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAILED:", err)
		os.Exit(1)
	}
	fmt.Println("OK:", said)
}

// skipped says what is not there that a test would need.
type skipped struct{ why string }

func (s skipped) Error() string { return s.why }

func check(ctx context.Context, library, smi string) (said string, err error) {
	d := driver.New(driver.Options{Library: library})
	if err := d.Open(ctx); errors.Is(err, driver.ErrNoLibrary) || errors.Is(err, driver.ErrNoDriver) {
		return "", skipped{fmt.Sprintf("looked for an NVIDIA GPU, and found none that can be asked: %v", err)}
	} else if err != nil {
		return "", err
	}
	defer func() {
		// The call ends what Listen began, too.
		err = errors.Join(err, d.Close(context.WithoutCancel(ctx)))
	}()
	ours, err := d.Snapshot(ctx)
	if err != nil {
		return "", err
	}
	if len(ours.GPUs) == 0 {
		return "", skipped{"looked for NVIDIA GPUs, and the driver that is loaded counts none"}
	}
	program, err := exec.LookPath(smi)
	if err != nil {
		return "", skipped{fmt.Sprintf("looked for %s to compare %d GPUs with, and it is not there", smi, len(ours.GPUs))}
	}
	text, err := exec.CommandContext(ctx, program, "-q", "-x").Output()
	if err != nil {
		return "", fmt.Errorf("%s -q -x: %w", program, err)
	}
	theirs, err := parse(text)
	if err != nil {
		return "", fmt.Errorf("what %s -q -x says: %w", program, err)
	}
	telemetry, err := d.Telemetry(ctx)
	if err != nil {
		return "", err
	}
	c := &comparison{}
	c.snapshot(ours, theirs)
	c.telemetry(telemetry, theirs)
	events, err := d.Listen(ctx)
	if err != nil {
		return "", err
	}
	for uuid, why := range events.Unheard() {
		if !errors.Is(why, driver.ErrNotSupported) {
			c.differ(uuid, "events", why, "a registration")
		}
	}
	if err := errors.Join(c.differences...); err != nil {
		return "", fmt.Errorf("%d of %d answers are not nvidia-smi's:\n%w", len(c.differences), c.compared, err)
	}
	return fmt.Sprintf("%d answers about %d GPUs are nvidia-smi's", c.compared, len(ours.GPUs)), nil
}
