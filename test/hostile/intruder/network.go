package intruder

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

func network() []Attempt {
	return []Attempt{
		{Name: "tcp-loopback", What: "connect to a TCP port of the machine", By: "network", try: func(s *Settings) error { return dial("tcp", s.Loopback) }},
		{Name: "tcp-outside", What: "connect to another machine", By: "network", try: func(s *Settings) error {
			// A time-out or a refusal shows that a packet was sent.
			err := allowed(dial("tcp", s.Outside), unix.ECONNREFUSED, unix.EHOSTUNREACH)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return nil
			}
			return err
		}},
		{Name: "udp", What: "send a datagram to another machine, as DNS does", By: "network", try: func(s *Settings) error {
			conn, err := (&net.Dialer{}).DialContext(context.Background(), "udp", s.Outside)
			if err != nil {
				return err
			}
			_, err = conn.Write([]byte("intruder"))
			return errors.Join(err, conn.Close())
		}},
		{Name: "listen", What: "listen on a TCP port", By: "network", try: func(*Settings) error {
			listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			return listener.Close()
		}},
		{Name: "abstract-socket", What: "connect to another process's abstract unix socket, as of containerd's shims", By: "processes systemCalls", try: func(s *Settings) error {
			return connect("@" + s.Abstract)
		}},
		{Name: "raw-socket", What: "send and receive raw packets", By: "capabilities network", try: func(*Settings) error {
			return anyOf([][3]int{{unix.AF_PACKET, unix.SOCK_RAW, 0}, {unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, {unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6}}, socket)
		}},
		{Name: "other-sockets", What: "make sockets of rarely used families (VSOCK, ALG, Bluetooth, CAN, TIPC, KCM)", By: "network", Optional: true, try: func(*Settings) error {
			return anyOf([][3]int{
				{unix.AF_VSOCK, unix.SOCK_STREAM, 0}, {unix.AF_ALG, unix.SOCK_SEQPACKET, 0}, {unix.AF_BLUETOOTH, unix.SOCK_RAW, 1},
				{unix.AF_CAN, unix.SOCK_RAW, 1}, {unix.AF_TIPC, unix.SOCK_DGRAM, 0}, {unix.AF_KCM, unix.SOCK_DGRAM, 0}, {unix.AF_XDP, unix.SOCK_RAW, 0},
			}, socket)
		}},
		{Name: "interface", What: "change a network interface", By: "capabilities", try: func(*Settings) error { return changeInterface() }},
		{Name: "fake-event", What: "send another backend a device event in the kernel's name", By: "capabilities", try: func(s *Settings) error {
			fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT)
			if err != nil {
				return err
			}
			defer func() { _ = unix.Close(fd) }()
			// To the other backend's port, which may not exist, and to no group.
			return allowed(unix.Sendto(fd, []byte("change@/devices/none\x00ACTION=change\x00"), 0, &unix.SockaddrNetlink{
				Family: unix.AF_NETLINK, Pid: uint32(s.Other), Groups: 0,
			}), unix.ECONNREFUSED)
		}},
	}
}

func dial(network, address string) error {
	conn, err := (&net.Dialer{Timeout: connectLimit}).DialContext(context.Background(), network, address)
	if err != nil {
		return err
	}
	return conn.Close()
}

func socket(of [3]int) error {
	fd, err := unix.Socket(of[0], of[1]|unix.SOCK_CLOEXEC, of[2])
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// changeInterface sets no flag of the loopback interface: RTM_NEWLINK without a change.
func changeInterface() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	request := make([]byte, unix.SizeofNlMsghdr+unix.SizeofIfInfomsg)
	order := binary.NativeEndian
	order.PutUint32(request[0:], uint32(len(request)))
	order.PutUint16(request[4:], unix.RTM_NEWLINK)
	order.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	order.PutUint32(request[unix.SizeofNlMsghdr+4:], 1) // the loopback interface's index in every network namespace
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 {
		return errors.New("a short answer")
	}
	if code := int32(order.Uint32(answer[unix.SizeofNlMsghdr:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}
