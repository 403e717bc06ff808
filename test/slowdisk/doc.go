// Package slowdisk gives the processes that a test starts a disk that takes its time: the kernel
// holds each fsync and fdatasync of them, and of their children, until this package lets it go on
// (seccomp_unotify(2)). It needs Linux, and no root; where New fails, a test is skipped loudly.
//
//	disk, err := slowdisk.New()
//	err = disk.Start(cmd) // in place of cmd.Start
//	disk.Take(time.Second) // from now on, each write to the disk takes that long
package slowdisk
