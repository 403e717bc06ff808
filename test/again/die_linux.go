package again

import "syscall"

// dieWithParent makes the kernel kill a child when the thread that started it ends.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
