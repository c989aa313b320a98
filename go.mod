module github.com/go-roce/roce

go 1.26
