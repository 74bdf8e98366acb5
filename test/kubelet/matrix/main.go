// Command matrix runs the tests with each release of kubelet that there is, one after
// the other, or with those that are given, and writes what came of it into the table
// of ../README.md. It fails if a test does.
//
//	go run ./matrix [-bin DIR] [RELEASE ...]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	bin := flag.String("bin", "../../bin", "`directory` of the accelmux programs; the kubelets are built into it, too")
	readme := flag.String("readme", "README.md", "`file` with the table")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *bin, *readme, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bin, readme string, releases []string) error {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "manager/releases.sh").Output()
	if err != nil {
		return fmt.Errorf("list the releases: %w", err)
	}
	if releases, err = choose(strings.Fields(string(out)), releases); err != nil {
		return err
	}
	var failed []string
	for _, release := range releases {
		fmt.Printf("%s %s: build\n", time.Now().Format(time.TimeOnly), release)
		r, err := test(ctx, bin, release)
		if err != nil {
			return err
		}
		fmt.Printf("%s %s: %d passed, %d skipped, %d failed\n",
			time.Now().Format(time.TimeOnly), release, r.passed, len(r.skipped), len(r.failed))
		for _, name := range r.failed {
			failed = append(failed, release+" "+name)
			fmt.Printf("--- %s failed:\n%s\n", name, r.output[name])
		}
		if err := r.write(readme); err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	return nil
}

// choose is which releases of those that there are to run: those that are asked for, or
// all. One that there is not is an error before anything is built.
func choose(all, asked []string) ([]string, error) {
	for _, release := range asked {
		if !slices.Contains(all, release) {
			return nil, fmt.Errorf("no kubelet %s: there are %s", release, strings.Join(all, " "))
		}
	}
	if len(asked) == 0 {
		return all, nil
	}
	return asked, nil
}

// test builds a release and runs the tests with it.
func test(ctx context.Context, bin, release string) (*result, error) {
	program := filepath.Join(bin, "kubelet-"+release)
	if out, err := exec.CommandContext(ctx, "manager/build.sh", release, program).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build kubelet %s: %w\n%s", release, err, out)
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-json", "-timeout", "60m", ".", "./realkubelet")
	// What the machine lacks must not pass for what the release does (test/host).
	cmd.Env = append(os.Environ(), "ACCELMUX_BIN="+bin, "KUBELET_PROGRAM="+program, "ACCELMUX_NO_SKIPS=1")
	cmd.Stderr = os.Stderr
	// To the whole group, as Ctrl-C does: go hands no signal on.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("run the tests: %w", err)
	}
	r, err := read(release, out)
	if waited := cmd.Wait(); err == nil && waited != nil && len(r.failed) == 0 {
		err = waited // no test says why
	}
	if err != nil {
		return nil, fmt.Errorf("run the tests with %s: %w", release, err)
	}
	return r, nil
}
