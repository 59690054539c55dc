"""Git repositories, also hostile ones: read, and given objects and refs, without a program that trusts them.

Whoever can write into a repository, such as an agent that works in it, chooses what its settings, hooks and filters
run. So no git process ever works in a repository of the user. boolab opens the few files of it that it needs itself,
through no link, without waiting, up to a size (`repository`, `refs`, `objects`), and git works in a git directory of
boolab's own, which lasts as long as the question (`reading`), in the state folder.

Read `reading` first.
"""
