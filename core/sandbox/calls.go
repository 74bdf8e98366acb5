package sandbox

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// callGroups are the system calls that a backend may declare, by the groups' names in systemd.exec(5), without
// those in serviceCalls and io_uring; @inotify is our own. Calls that the architecture does not have are ignored.
var callGroups = map[string]string{
	"@aio":         "io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit",
	"@chown":       "chown fchown fchownat lchown",
	"@clock":       "adjtimex clock_adjtime clock_settime settimeofday",
	"@debug":       "lookup_dcookie perf_event_open pidfd_getfd ptrace process_vm_readv process_vm_writev",
	"@file-system": "chmod fchmod fchmodat fchmodat2 fremovexattr fsetxattr futimesat lremovexattr lsetxattr removexattr setxattr utime utimensat utimes",
	"@inotify":     "inotify_add_watch inotify_init inotify_init1 inotify_rm_watch",
	"@ipc": "mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd semctl semget semop " +
		"semtimedop shmat shmctl shmdt shmget",
	"@keyring":    "add_key keyctl request_key",
	"@module":     "delete_module finit_module init_module",
	"@mount":      "fsconfig fsmount fsopen fspick mount mount_setattr move_mount open_tree pivot_root umount2",
	"@network-io": "connect", // and datagrams
	"@pkey":       "pkey_alloc pkey_free pkey_mprotect",
	"@raw-io":     "ioperm iopl",
	"@resources": "ioprio_set mbind migrate_pages move_pages sched_setaffinity sched_setattr sched_setparam sched_setscheduler " +
		"set_mempolicy setpriority",
}

// CallGroups returns the names of the groups of system calls that can be given beyond those of every
// backend, sorted.
func CallGroups() []string { return slices.Sorted(maps.Keys(callGroups)) }

// serviceCalls are those of @system-service, without four kinds: those that no backend needs; those that
// bypass the other measures (namespaces, keyrings, other processes' memory, and io_uring, whose operations no
// filter sees); those that Landlock does not restrict and with which root's user could harm the agent
// (connect to sockets, change modes, attach shared memory, change the priority, CPUs and limits of processes);
// and those that use up what the kernel counts for the node or for a user (docs/security.md lists them).
const serviceCalls = `
	_newselect accept accept4 access alarm arch_prctl bind brk capget capset chdir chroot clock_getres clock_gettime clock_nanosleep close
	close_range copy_file_range creat dup dup2 dup3 epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait
	epoll_wait_old eventfd eventfd2 execve execveat exit exit_group faccessat faccessat2 fadvise64 fallocate fchdir fcntl fdatasync
	fgetxattr flistxattr flock fork fstat fstatfs fsync ftruncate futex futex_requeue futex_wait futex_waitv futex_wake
	get_mempolicy get_robust_list get_thread_area getcpu getcwd getdents getdents64 getegid geteuid getgid getgroups getitimer getpeername
	getpgid getpgrp getpid getppid getpriority getrandom getresgid getresuid getrlimit getrusage getsid getsockname getsockopt gettid
	gettimeofday getuid getxattr ioctl ioprio_get kill landlock_add_rule landlock_create_ruleset landlock_restrict_self lgetxattr link
	linkat listen listxattr llistxattr lseek lstat madvise map_shadow_stack membarrier mincore mkdir mkdirat mknod mknodat
	mlock mlock2 mlockall mprotect mremap mseal msync munlock munlockall munmap nanosleep newfstatat open openat openat2 pause
	personality pidfd_open pidfd_send_signal pipe pipe2 poll ppoll prctl pread64 preadv preadv2 process_madvise pselect6 pwrite64 pwritev
	pwritev2 read readahead readlink readlinkat readv recvfrom recvmmsg recvmsg remap_file_pages rename renameat renameat2 restart_syscall
	rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo
	sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval
	sched_yield seccomp select sendfile sendmmsg sendmsg sendto set_robust_list set_thread_area set_tid_address setfsgid setfsuid setgid
	setgroups setitimer setpgid setregid setresgid setresuid setreuid setrlimit setsid setsockopt setuid shutdown sigaltstack signalfd signalfd4
	splice stat statfs statx symlink symlinkat sync sync_file_range syncfs sysinfo tee tgkill time timer_create timer_delete
	timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime times tkill truncate umask uname unlink
	unlinkat uretprobe vfork vmsplice wait4 waitid write writev`

// newNamespaces are the flags of clone(2) that make namespaces.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET

// callFilter returns a filter of system calls. A call that it does not list fails with EPERM; clone3, whose
// flags no filter sees, fails with ENOSYS, so that C libraries use clone. Sockets are of unix or netlink. Memory
// is not of the huge pages that the node reserves for others.
// unknown lists the groups that are not in callGroups.
func callFilter(groups []string) (p seccomp.Policy, unknown []string, err error) {
	machine, err := arch.GetInfo("")
	if err != nil {
		return p, nil, err
	}
	known := func(calls ...string) (names []string) {
		for _, name := range calls {
			if _, ok := machine.SyscallNames[name]; ok && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		return names
	}
	allowed := strings.Fields(serviceCalls)
	for _, group := range groups {
		calls, ok := callGroups[group]
		if !ok {
			unknown = append(unknown, group)
		}
		allowed = append(allowed, strings.Fields(calls)...)
	}
	equals := func(name string, value uint64, more ...seccomp.Condition) seccomp.NameWithConditions {
		return seccomp.NameWithConditions{Name: name, Conditions: append(seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.Equal, Value: value}}, more...)}
	}
	without := func(name string, argument uint32, flag uint64) seccomp.NameWithConditions {
		return seccomp.NameWithConditions{Name: name, Conditions: seccomp.ArgumentConditions{{Argument: argument, Operation: seccomp.BitsNotSet, Value: flag}}}
	}
	// A datagram goes to any socket without connect(2). The bit is in SOCK_DGRAM and SOCK_RAW only.
	var streams []seccomp.Condition
	if !slices.Contains(groups, "@network-io") {
		streams = []seccomp.Condition{{Argument: 1, Operation: seccomp.BitsNotSet, Value: unix.SOCK_DGRAM}}
	}
	return seccomp.Policy{DefaultAction: seccomp.ActionErrno, Syscalls: []seccomp.SyscallGroup{
		{Action: seccomp.ActionAllow, Names: known(allowed...), NamesWithCondtions: []seccomp.NameWithConditions{
			equals("socket", unix.AF_UNIX, streams...), equals("socketpair", unix.AF_UNIX, streams...),
			equals("socket", unix.AF_NETLINK),
			without("clone", 0, newNamespaces), equals("prlimit64", 0), // its own limits
			without("mmap", 3, unix.MAP_HUGETLB), without("memfd_create", 1, unix.MFD_HUGETLB),
		}},
		{Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS), Names: known("clone3")},
	}}, unknown, nil
}

// calls puts the filter in force.
func (s *shim) calls() {
	policy, unknown, err := callFilter(s.Needs.SystemCalls)
	if err == nil {
		err = seccomp.LoadFilter(seccomp.Filter{Policy: policy})
	}
	s.callsErr = err
	if s.callsGiven = strings.Join(s.Needs.SystemCalls, " "); len(unknown) > 0 {
		s.callsGiven += fmt.Sprintf(" (unknown groups: %s)", strings.Join(unknown, " "))
	}
}
