package clock

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Clock is the wall clock of one process, as it reads it: through the kernel's vDSO, in
// its own memory (vdso(7)). There, clock_gettime is made to ask the kernel and to add a
// step to the answer for CLOCK_REALTIME; that is what a process sees if somebody sets the
// clock. CLOCK_MONOTONIC is not touched, as it is not by that, nor are the times of
// files, which are then from before the step. Processes that it starts have the kernel's
// clock.
type Clock struct {
	pid  int
	step int64 // address of the step, in seconds
}

// Of takes over the clock of a running process, once; it must have begun the program that
// it is to run. [errors.ErrUnsupported] is in the error where that cannot be done here.
func Of(pid int) (*Clock, error) {
	start, end, err := vdso(pid)
	if err != nil {
		return nil, err
	}
	memory, err := os.OpenFile(memoryOf(pid), os.O_RDWR, 0)
	if err != nil {
		return nil, unsupported("another process's memory cannot be written", err)
	}
	defer func() { _ = memory.Close() }()
	image := make([]byte, end-start)
	if _, err := io.ReadFull(io.NewSectionReader(memory, start, end-start), image); err != nil {
		return nil, unsupported("another process's vDSO cannot be read", err)
	}
	entry, err := symbol(image, "__vdso_clock_gettime")
	if err != nil {
		return nil, err
	}
	// What follows the ELF image in its last page is empty.
	room := len(bytes.TrimRight(image, "\x00")) + 16
	code := []byte{
		0xb8, 228, 0, 0, 0, // mov eax, SYS_clock_gettime
		0x0f, 0x05, // syscall
		0x85, 0xff, // test edi, edi: CLOCK_REALTIME is 0
		0x75, 14, // jne to the end
		0x85, 0xc0, // test eax, eax: it failed
		0x75, 10, // jne to the end
		0x48, 0x8b, 0x0d, 4, 0, 0, 0, // mov rcx, the 8 bytes after the end
		0x48, 0x01, 0x0e, // add [rsi], rcx: tv_sec
		0xc3, // the end: ret
		0, 0, 0, 0, 0, 0, 0, 0,
	}
	if room+len(code) > len(image) {
		return nil, unsupported("there is no room behind the vDSO", errors.New("its last page is full"))
	}
	jump := binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(room-(entry+5))) //nolint:gosec // of two places in one image
	for _, part := range []struct {
		at   int
		code []byte
	}{{room, code}, {entry, jump}} {
		if _, err := memory.WriteAt(part.code, start+int64(part.at)); err != nil {
			return nil, unsupported("another process's vDSO cannot be written", err)
		}
	}
	return &Clock{pid: pid, step: start + int64(room+len(code)-8)}, nil
}

// Step has the process's clock be off by that much, in whole seconds, from the real one
// on; 0 for not at all.
func (c *Clock) Step(by time.Duration) error {
	memory, err := os.OpenFile(memoryOf(c.pid), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("step the clock of process %d: %w", c.pid, err)
	}
	defer func() { _ = memory.Close() }()
	step := binary.LittleEndian.AppendUint64(nil, uint64(by/time.Second)) //nolint:gosec // two's complement
	if _, err := memory.WriteAt(step, c.step); err != nil {
		return fmt.Errorf("step the clock of process %d: %w", c.pid, err)
	}
	return nil
}

func memoryOf(pid int) string { return fmt.Sprintf("/proc/%d/mem", pid) }

func unsupported(what string, err error) error {
	return fmt.Errorf("%s here: %w (%w)", what, err, errors.ErrUnsupported)
}

// vdso is where a process has it.
func vdso(pid int) (start, end int64, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, 0, fmt.Errorf("find the vDSO of process %d: %w", pid, err)
	}
	if len(maps) == 0 {
		return 0, 0, fmt.Errorf("find the vDSO of process %d: %w", pid, syscall.ESRCH)
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.Contains(line, "[vdso]") {
			continue
		}
		from, rest, _ := strings.Cut(line, "-")
		to, _, _ := strings.Cut(rest, " ")
		start, err1 := strconv.ParseInt(from, 16, 64)
		end, err2 := strconv.ParseInt(to, 16, 64)
		return start, end, errors.Join(err1, err2)
	}
	return 0, 0, fmt.Errorf("process %d has no vDSO: %w", pid, errors.ErrUnsupported)
}

// symbol is the place of a function in an ELF image.
func symbol(image []byte, name string) (int, error) {
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, fmt.Errorf("read the vDSO: %w", err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, fmt.Errorf("read the vDSO: %w", err)
	}
	for _, s := range symbols {
		if s.Name == name {
			return int(s.Value), nil //nolint:gosec // within the image
		}
	}
	return 0, fmt.Errorf("the vDSO has no %s: %w", name, errors.ErrUnsupported)
}
