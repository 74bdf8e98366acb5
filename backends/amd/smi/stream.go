package smi

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	// backlog is how many events wait for a slow reader. When it is full, what comes
	// next waits in the driver.
	backlog = 256
	// readSize is all that the driver keeps.
	readSize = 8192
)

// ErrEnded means that the driver gives no more events of a GPU: it went away, or
// its driver was unloaded.
var ErrEnded = errors.New("no more events of this GPU")

// Source gives the events of GPUs. [Node] is the real one.
type Source interface {
	// Open begins to hear the events of a mask. GPUs have the number that is their
	// gpu_id in KFD's topology. Read waits for events, however long it takes; Close,
	// which may be called meanwhile, ends it at once.
	Open(gpuID uint32, mask uint64) (io.ReadCloser, error)
}

// Stream gives the events of one GPU until it is closed or the GPU goes away. While
// nothing happens, it costs nothing.
type Stream struct {
	events  chan Event
	from    io.ReadCloser
	closing chan struct{}
	close   sync.Once
	done    chan struct{}
	err     error // once done
	skipped atomic.Uint64
}

// Listen begins to listen to a GPU; events from before are lost. VMFault has to be
// alone: a program that fails chooses its own name, and with a line feed in it
// could otherwise pretend that its GPU is being reset.
func Listen(from Source, gpuID uint32, kinds ...Kind) (*Stream, error) {
	var mask uint64
	for _, kind := range kinds {
		if kind < VMFault || kind > PostReset {
			return nil, fmt.Errorf("listen to GPU %d: %s is no event that is known", gpuID, kind)
		}
		mask |= kind.mask()
	}
	if mask == 0 {
		return nil, fmt.Errorf("listen to GPU %d: no events are asked for", gpuID)
	}
	if mask&VMFault.mask() != 0 && mask != VMFault.mask() {
		return nil, fmt.Errorf("listen to GPU %d: %s has to have a stream of its own", gpuID, VMFault)
	}
	file, err := from.Open(gpuID, mask)
	if err != nil {
		return nil, fmt.Errorf("listen to GPU %d: %w", gpuID, err)
	}
	s := &Stream{events: make(chan Event, backlog), from: file, closing: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		defer close(s.events)
		if err := s.read(kinds); err != nil {
			s.err = fmt.Errorf("events of GPU %d: %w", gpuID, err)
		}
	}()
	return s, nil
}

// Events are closed when the stream ends.
func (s *Stream) Events() <-chan Event { return s.events }

// Err says why the stream ended, once Events are closed: nil after Close, else
// ErrEnded with the driver's reason. It waits for the end of the stream.
func (s *Stream) Err() error {
	<-s.done
	return s.err
}

// Skipped is how many lines made no sense so far, or were not asked for.
func (s *Stream) Skipped() uint64 { return s.skipped.Load() }

// Close ends the stream at once; events that nobody has taken are lost. It can be
// called again.
func (s *Stream) Close() error {
	var err error
	s.close.Do(func() {
		close(s.closing)
		err = s.from.Close()
	})
	<-s.done
	return err
}

// read hands on events until the end; the error is nil if that was asked for.
func (s *Stream) read(kinds []Kind) error {
	var cut lines
	buffer := make([]byte, readSize)
	for {
		n, err := s.from.Read(buffer)
		cut.add(buffer[:n], func(line string) {
			e, err := parse(line)
			if err != nil || !slices.Contains(kinds, e.Kind) {
				s.skipped.Add(1)
				return
			}
			select {
			case s.events <- e:
			case <-s.closing:
			}
		}, func() { s.skipped.Add(1) })
		select {
		case <-s.closing:
			return nil
		default:
		}
		switch {
		case errors.Is(err, io.EOF):
			return ErrEnded
		case err != nil:
			return fmt.Errorf("%w: %w", ErrEnded, reason(err))
		case n == 0:
			return fmt.Errorf("%w: an empty read", ErrEnded)
		}
	}
}

// reason is an error without the name of a file that has none.
func reason(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}
