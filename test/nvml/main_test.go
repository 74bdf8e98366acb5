package nvml

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/accelmux/accelmux/test/patience"
)

// library is built once: a process binds NVML's functions to the first library
// that it loads, so all tests here share it and differ in the file.
var library string

func TestMain(m *testing.M) {
	if os.Getenv("NVML_TEST_CHILD") != "" {
		os.Exit(child())
	}
	os.Exit(run(m))
}

// child is a program that knows NVML by its name only.
func child() int {
	lib := nvml.New()
	ret := lib.Init()
	count, _ := lib.DeviceGetCount()
	fmt.Println(ret, count)
	return int(lib.Shutdown())
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "nvml-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		library, err = Build(context.Background(), dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// start has a double with so many GPUs, and its library loaded but not
// initialised.
func start(t testing.TB, gpus int) (*Double, nvml.Interface) {
	t.Helper()
	double, err := New(library, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("ACCELMUX_NVML_FILE", double.file)
	t.Setenv("ACCELMUX_NVML_CALLS", double.calls)
	update(t, double, func(s State) {
		for slot := range gpus {
			s.AddGPU(slot)
		}
	})
	return double, nvml.New(nvml.WithLibraryPath(library))
}

// initialised is start, and NVML initialised until the test ends.
func initialised(t testing.TB, gpus int) (*Double, nvml.Interface) {
	t.Helper()
	double, lib := start(t, gpus)
	want(t, "Init", lib.Init(), nvml.SUCCESS)
	t.Cleanup(func() { _ = lib.Shutdown() })
	return double, lib
}

func update(t testing.TB, double *Double, change func(State)) {
	t.Helper()
	if err := double.Update(change); err != nil {
		t.Fatal(err)
	}
}

func await(t testing.TB, double *Double, are func([]Call) bool) {
	t.Helper()
	limited, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := double.Await(limited, are); err != nil {
		t.Fatal(err)
	}
}

func want(t testing.TB, what string, got, want nvml.Return) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %d %v, want %d", what, got, nvml.ErrorString(got), want)
	}
}

// same compares what a call answered.
func same[T comparable](t testing.TB, what string, got T, ret nvml.Return, expected T) {
	t.Helper()
	want(t, what, ret, nvml.SUCCESS)
	if got != expected {
		t.Errorf("%s: got %v, want %v", what, got, expected)
	}
}

func device(t testing.TB, lib nvml.Interface, index int) nvml.Device {
	t.Helper()
	device, ret := lib.DeviceGetHandleByIndex(index)
	want(t, fmt.Sprintf("DeviceGetHandleByIndex(%d)", index), ret, nvml.SUCCESS)
	return device
}

// soon is for what must not wait for any time-out.
func soon(t testing.TB, started time.Time) {
	t.Helper()
	if took := time.Since(started); took > patience.Long/2 {
		t.Errorf("it took %v", took)
	}
}

// built compiles one of the library's programs and returns its path.
func built(t testing.TB, name string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	if err := compile(t.Context(), program, filepath.Join("library", name+".c")); err != nil {
		t.Fatal(err)
	}
	return program
}
