package smi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// readSize is all that the driver keeps.
const readSize = 8192

// ErrEnded means that the driver has no more events of a GPU: the GPU is gone, or its driver
// was unloaded.
var ErrEnded = errors.New("no more events of this GPU")

// Source gives the events of GPUs. [Node] is the real one.
type Source interface {
	// Open begins to receive the events of a mask. GPUs have the number that is their
	// gpu_id in KFD's topology. Read waits for events, however long it takes; Close,
	// which may be called meanwhile, ends it at once.
	Open(gpuID uint32, mask uint64) (io.ReadCloser, error)
}

// Read calls handle with each event of a GPU until ctx ends, which is no error, or the driver
// has no more (ErrEnded). Another error means that the events could not be opened. Earlier
// events are not read, and lines that are malformed are left out.
func Read(ctx context.Context, from Source, gpuID uint32, handle func(Event)) error {
	file, err := from.Open(gpuID, mask)
	if err != nil {
		return fmt.Errorf("events of GPU %d: %w", gpuID, err)
	}
	closing := context.AfterFunc(ctx, func() { _ = file.Close() }) // only read: nothing can be lost
	defer func() {
		if closing() {
			_ = file.Close()
		}
	}()
	var cut lines
	buffer := make([]byte, readSize)
	for {
		n, err := file.Read(buffer)
		cut.add(buffer[:n], func(line string) {
			if e, err := parse(line); err == nil && ctx.Err() == nil {
				handle(e)
			}
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, io.EOF), err == nil && n == 0:
			return fmt.Errorf("GPU %d: %w", gpuID, ErrEnded)
		case err != nil:
			return fmt.Errorf("GPU %d: %w: %w", gpuID, ErrEnded, reason(err))
		}
	}
}

// reason returns an error without the name of a file that has none.
func reason(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}
