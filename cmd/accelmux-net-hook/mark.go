package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// mark is the last word of the alias of an interface that was moved, accelmux:HOST:PID,PID. The
// kernel keeps the alias when the interface is moved or renamed, also when it moves a device of
// hardware back because the pod's namespace has ended.
type mark struct {
	// alias is that without the mark.
	alias string
	// host is the name on the node.
	host string
	// pids are the first processes of the containers that have it. They may have ended.
	pids []int
}

const markPrefix = "accelmux:"

// parseMark parses an alias. Without a mark the host is "".
func parseMark(alias string) mark {
	i := strings.LastIndex(alias, " ") + 1
	text, found := strings.CutPrefix(alias[i:], markPrefix)
	if !found {
		return mark{alias: alias}
	}
	m := mark{alias: strings.TrimSuffix(alias[:i], " ")}
	var pids string
	m.host, pids, _ = strings.Cut(text, ":")
	for text := range strings.SplitSeq(pids, ",") {
		if pid, err := strconv.Atoi(text); err == nil {
			m.pids = append(m.pids, pid)
		}
	}
	return m
}

// String returns the alias with the mark.
func (m mark) String() string {
	var pids []string
	for _, pid := range m.pids {
		pids = append(pids, strconv.Itoa(pid))
	}
	return strings.TrimPrefix(fmt.Sprintf("%s %s%s:%s", m.alias, markPrefix, m.host, strings.Join(pids, ",")), " ")
}

// marked makes a namespace that of the thread, and returns its interface that was moved and was
// host on the node; nil if it has none.
func marked(ns netns.NsHandle, host string) (netlink.Link, mark, error) {
	if err := netns.Set(ns); err != nil {
		return nil, mark{}, err
	}
	links, err := netlink.LinkList()
	if err != nil {
		return nil, mark{}, fmt.Errorf("list the network interfaces: %w", err)
	}
	i := slices.IndexFunc(links, func(l netlink.Link) bool { return parseMark(l.Attrs().Alias).host == host })
	if i < 0 {
		return nil, mark{}, nil
	}
	return links[i], parseMark(links[i].Attrs().Alias), nil
}
