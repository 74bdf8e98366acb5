package rig

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// eventsSize has room for some hundred events, in bytes.
const eventsSize = 64 << 10

// Opened notes when a file is opened: by inotify(7), so a moment later.
type Opened struct {
	events *os.File
	name   string
	ended  chan struct{}

	first time.Time // until ended is closed the listener's
}

// WatchOpened begins to watch a file of a directory, until [Opened.End].
func WatchOpened(dir, name string) (*Opened, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	o := &Opened{events: os.NewFile(uintptr(fd), "inotify"), name: name, ended: make(chan struct{})}
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_OPEN); err != nil {
		return nil, errors.Join(fmt.Errorf("watch %s: %w", dir, err), o.events.Close())
	}
	go o.listen()
	return o, nil
}

// listen reads events until End has it stop.
func (o *Opened) listen() {
	defer close(o.ended)
	for buffer := make([]byte, eventsSize); ; {
		n, err := o.events.Read(buffer)
		if err != nil {
			return
		}
		o.take(buffer[:n])
	}
}

// take notes the time if an event is of the file.
func (o *Opened) take(events []byte) {
	if now := time.Now(); o.first.IsZero() && o.names(events) {
		o.first = now
	}
}

// names reports whether an event is of the file: the length of its name is the last
// number of an event's head, in which the zeros that follow it count.
func (o *Opened) names(events []byte) bool {
	for len(events) >= unix.SizeofInotifyEvent {
		length := binary.NativeEndian.Uint32(events[unix.SizeofInotifyEvent-4:])
		name := events[unix.SizeofInotifyEvent : unix.SizeofInotifyEvent+int(length)]
		if string(bytes.TrimRight(name, "\x00")) == o.name {
			return true
		}
		events = events[unix.SizeofInotifyEvent+int(length):]
	}
	return false
}

// End ends the watch, and says when the file was first opened; the zero time if it was not.
func (o *Opened) End() (time.Time, error) {
	err := o.events.SetReadDeadline(time.Now())
	<-o.ended
	// What came just now may not have been read.
	buffer := make([]byte, eventsSize)
	raw, rawErr := o.events.SyscallConn()
	if err = errors.Join(err, rawErr, o.events.SetReadDeadline(time.Time{})); err == nil {
		err = raw.Read(func(fd uintptr) bool {
			if n, err := unix.Read(int(fd), buffer); err == nil {
				o.take(buffer[:n])
			}
			return true
		})
	}
	return o.first, errors.Join(err, o.events.Close())
}
