package uevent

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/host"
	"github.com/accelmux/accelmux/test/patience"
)

// harmless is a device whose events no program uses.
const harmless = "/devices/virtual/mem/null"

// pod runs f in a network namespace of its own, as a pod has one. Sockets that f opens stay
// there.
func pod(t *testing.T, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		host.Lacks(t, "no network namespace can be made here, which needs root: %v", err)
	}
}

// listenInPod listens as a pod would, and can send as a process there.
func listenInPod(t *testing.T) (*Listener, *socket, int) {
	t.Helper()
	var l *Listener
	var s *socket
	sender := -1
	var err, failed error
	pod(t, func() {
		s, err = open()
		sender, failed = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT)
	})
	if err = errors.Join(err, failed); err != nil {
		host.Lacks(t, "there is no socket for uevents here: %v", err)
	}
	l = NewListener(s, anything)
	t.Cleanup(func() {
		l.Close()
		if err := unix.Close(sender); err != nil {
			t.Error(err)
		}
	})
	return l, s, sender
}

// The real kernel's event of a device arrives in another network namespace, with all its
// properties.
func TestKernel(t *testing.T) {
	l, _, _ := listenInPod(t)
	if err := os.WriteFile("/sys"+harmless+"/uevent", []byte("change"), 0); err != nil {
		host.Lacks(t, "this process may not have the kernel send an event of %s: %v", harmless, err)
	}
	for {
		// Other events may come from the machine meanwhile.
		if e := receive(t, l); e.DevPath == harmless {
			if e.Action != Change || e.Subsystem != "mem" || e.Properties["DEVNAME"] != "null" {
				t.Errorf("%+v", e)
			}
			return
		}
	}
}

// send has the kernel send a message in the sender's network namespace, which it does for root
// (uevent_net_rcv in lib/kobject_uevent.c).
func send(t *testing.T, sender int, message string) {
	t.Helper()
	if err := unix.Sendto(sender, packet(message), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		host.Lacks(t, "this process may not have the kernel send uevents: %v", err)
	}
}

// packet returns a message after a netlink header.
func packet(message string) []byte {
	data := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(message)))
	data = binary.NativeEndian.AppendUint16(data, unix.NLMSG_MIN_TYPE)
	data = binary.NativeEndian.AppendUint16(data, unix.NLM_F_REQUEST)
	data = append(data, make([]byte, unix.SizeofNlMsghdr-len(data))...)
	return append(data, message...)
}

// A message that a process sends to the listener itself is ignored.
func TestOnlyTheKernelIsBelieved(t *testing.T) {
	l, s, sender := listenInPod(t)
	var own unix.Sockaddr
	var failed error
	if err := s.raw.Control(func(fd uintptr) { own, failed = unix.Getsockname(int(fd)) }); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	forged := "add@/devices/forged\x00SUBSYSTEM=pci\x00"
	to := &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: own.(*unix.SockaddrNetlink).Pid}
	if err := unix.Sendto(sender, []byte(forged), 0, to); err != nil {
		host.Lacks(t, "this process may not send to another: %v", err)
	}
	send(t, sender, "add@/devices/true\x00SUBSYSTEM=pci\x00")
	for {
		switch e := receive(t, l); e.DevPath {
		case "/devices/forged":
			t.Fatalf("%+v was believed", e)
		case "/devices/true":
			return
		}
	}
}

// A reader that is too slow receives Missed, and then the events that follow.
func TestMissedEvents(t *testing.T) {
	l, s, sender := listenInPod(t)
	var failed error
	// Some systems give each socket a buffer of megabytes.
	err := s.raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 64<<10) })
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	for range 20_000 {
		send(t, sender, "change@/devices/storm\x00SUBSYSTEM=pci\x00")
	}
	missed, late := 0, time.After(patience.Long)
	for {
		select {
		case e := <-l.Events():
			if e.Action == Missed {
				missed++
			}
			if e.DevPath != "/devices/after" {
				continue
			}
			if missed == 0 {
				t.Error("nothing was missed")
			}
			return
		case <-time.After(100 * time.Millisecond): // all that was not dropped was read
			send(t, sender, "add@/devices/after\x00SUBSYSTEM=pci\x00")
		case <-late:
			t.Fatal("the event after the storm did not come")
		}
	}
}

// Close ends a Receive from the kernel.
func TestCloseOfTheSocket(t *testing.T) {
	l, err := Listen(anything)
	if err != nil {
		host.Lacks(t, "there is no socket for uevents here: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.Close()
	}()
	select {
	case <-ended:
	case <-time.After(patience.Long):
		t.Fatal("it still waits")
	}
	if l.Err() != nil {
		t.Error(l.Err())
	}
}

// A process in another user namespace than the initial one receives no events, and knows that.
func TestIsolated(t *testing.T) {
	for text, want := range map[string]bool{
		"         0          0 4294967295\n": false, "         0     100000      65536\n": true, "0 0 1\n1 1 4294967294\n": true,
	} {
		file := filepath.Join(t.TempDir(), "uid_map")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := isolated(file); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if isolated("/missing") {
		t.Error("without /proc")
	}
}
