// Package warn names the problems of which people are warned, and orders the warnings by what they mean now
// (docs/protocol.md#upgrade-ready). Packages upgrade, noderecord and nodeservices, and the packages that observe a problem,
// make warnings with these reasons; presences carry them, and /status and the commands show them. It is pure, as package
// protocol is.
//
//	NodeDead and others reason.go   the reasons, which are never renamed
//	SeverityOf          severity.go is something down now, at risk, or only to be known
//	OfWork              work.go     the warnings of work that people began: turns and a rollback
package warn
