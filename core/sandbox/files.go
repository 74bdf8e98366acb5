package sandbox

import (
	"fmt"
	"os"
	"slices"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Files that every program needs: its libraries and interpreters, and what these read.
var (
	baseRead = []string{
		"/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc/ld.so.*", "/etc/alternatives", "/etc/localtime", "/etc/timezone", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group",
		"/etc/ssl/certs", "/etc/ssl/*.cnf", "/etc/pki/tls/certs", "/etc/pki/tls/*.cnf", "/etc/pki/ca-trust/extracted", "/etc/crypto-policies", "/etc/python3*", "/dev/urandom", "/dev/random",
		"/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/filesystems", "/proc/sys/kernel", "/proc/sys/vm",
		"/sys/devices/system/cpu", "/sys/kernel/mm/transparent_hugepage",
	}
	baseWrite = []string{"/dev/null", "/dev/zero", "/dev/full"}
)

// Rights of Landlock (linux/landlock.h).
const (
	rightsOfFiles = ll.AccessFSExecute | ll.AccessFSWriteFile | ll.AccessFSReadFile | ll.AccessFSTruncate | ll.AccessFSIoctlDev | ll.AccessFSResolveUnix
	readRights    = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSReadDir
	listRights    = ll.AccessFSReadDir
	// writeRights lacks the rights to make device nodes.
	writeRights = readRights | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | ll.AccessFSMakeDir | ll.AccessFSMakeReg |
		ll.AccessFSMakeSock | ll.AccessFSMakeFifo | ll.AccessFSMakeSym | ll.AccessFSRefer | ll.AccessFSResolveUnix
	openRights = ll.AccessFSReadFile | ll.AccessFSReadDir | ll.AccessFSWriteFile | ll.AccessFSIoctlDev
)

// abis are the configurations by Landlock's ABI. ABI 8 restricts the same as 7.
var abis = []landlock.Config{
	{}, landlock.V1, landlock.V2, landlock.V3, landlock.V4, landlock.V5, landlock.V6, landlock.V7, landlock.V8, landlock.V9, landlock.V10, landlock.V11,
}

// files restricts what the process may open, and which processes it may reach.
func (s *shim) files() {
	abi, err := ll.LandlockGetABIVersion()
	if err != nil {
		err = fmt.Errorf("the kernel has no Landlock, or it is not enabled (lsm=landlock): %w", err)
	}
	outside, name := listenAbstract()
	if err == nil {
		abi = min(abi, len(abis)-1)
		err = s.restrict(abis[abi])
	}
	older := func(measured error, since int, kernel string) error {
		switch {
		case err != nil:
			return err
		case abi < since:
			return fmt.Errorf("the kernel's Landlock has ABI %d, and ABI %d (Linux %s) restricts them", abi, since, kernel)
		}
		return measured
	}
	// A file that the program is given cannot show that others are refused.
	var files, ioctls error
	if !gives(slices.Concat(s.Needs.Read, s.Needs.List, s.Needs.Write, s.Needs.Open), "/") {
		files = probeFiles()
	}
	if !gives(s.Needs.Open, os.DevNull) {
		ioctls = probeIoctls()
	}
	s.measured(Files, fmt.Sprintf("Landlock ABI %d", abi), older(files, 1, "5.13"))
	s.measured(Ioctls, "", older(ioctls, 5, "6.10"))
	s.measured(Processes, "", older(probeProcesses(name), 6, "6.12"))
	_ = unix.Close(outside)
}

// restrict puts Landlock's rules in force.
func (s *shim) restrict(config landlock.Config) error {
	var rules []landlock.Rule
	add := func(rights landlock.AccessFSSet, paths ...string) {
		for _, path := range paths {
			info, err := os.Stat(path)
			if err != nil {
				continue
			}
			possible := rights & config.HandledAccessFS
			if !info.IsDir() {
				possible &= rightsOfFiles
			}
			if possible != 0 {
				rules = append(rules, landlock.PathAccess(possible, path))
			}
		}
	}
	for _, pattern := range baseRead {
		add(readRights, find(pattern).files...)
	}
	add(writeRights, baseWrite...)
	add(writeRights, s.Dir)
	for _, path := range append(s.Programs, s.Program) {
		add(readRights, path)
	}
	if s.Pinned {
		add(readRights, fmt.Sprintf("/proc/self/fd/%d", planFD))
	}
	for rights, patterns := range map[landlock.AccessFSSet][]string{readRights: s.Needs.Read, listRights: s.Needs.List, writeRights: s.Needs.Write, openRights: s.Needs.Open} {
		for _, pattern := range patterns {
			f := s.found[pattern]
			if len(f.files) == 0 {
				s.report.Unmatched = append(s.report.Unmatched, pattern)
			}
			add(listRights, f.dirs...)
			add(rights, f.files...)
		}
	}
	fd, flags, err := config.NewRulesetFD(rules...)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return ll.LandlockRestrictSelf(fd, flags)
}
