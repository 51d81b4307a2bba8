# SPDX-License-Identifier: Apache-2.0
"""The extension "work" of the port's host, the same as the one of harness_work.h."""
from pi_durable import define_extension, define_tool

COMMANDS = {"type": "object", "properties": {"commands": {"type": "array", "items": {"type": "string"}}},
            "required": ["commands"]}
DELEGATE = {"type": "object", "properties": {"script": {"type": "string"}, "text": {"type": "string"}},
            "required": ["script", "text"]}


def text_result(text):
    return {"output": [{"type": "text", "text": text}]}


async def both(args, api, context):
    text = ""
    for key, command in zip(("first", "second"), args["commands"], strict=True):
        result = await api.execute_tool("bash", {"command": command}, context, {"key": key})
        text += "cut\n" if result["isError"] else result["structuredOutput"]["output"]
    return text_result(text)


async def wrap(args, api, context):
    result = await api.execute_tool("both", args, context, {"key": "in"})
    return text_result("cut\n" if result["isError"] else result["structuredOutput"])


class Work:
    def __init__(self):
        self.harness = None  # once it is open

    async def child_of(self, api, script, context):
        """The one that this call made before it was cut off, or a new one."""
        storage = self.harness.storage
        owned = await self.harness.read_on_line(lambda: storage.scan_conversations(
            {"ownerTaskId": api.task_id}, 1, None, context))
        if owned["items"]:
            return await api.conversation(owned["items"][0]["id"], context)
        made = await self.harness.create_conversation(
            {"ownership": {"kind": "task", "taskId": api.task_id},
             "agent": {"model": {"provider": "scripted", "modelId": script}}}, context)
        return await api.conversation(made.id, context)

    async def delegate(self, args, api, context):
        child = await self.child_of(api, args["script"], context)
        job = {"type": "input", "content": args["text"], "request_id": "job"}
        settled = await (await child.submit(job, context)).wait(context)
        if settled["status"] != "done":
            raise RuntimeError(f"no answer: {settled['reason']}")
        found = await self.harness.read_on_line(lambda: self.harness.storage.entry(child.id, settled["answer"], context))
        return text_result(found["entry"]["model"][0]["content"][0]["text"])

    def extension(self):
        tools = [("both", COMMANDS, both, "safe"), ("both-once", COMMANDS, both, "unsafe"),
                 ("wrap", COMMANDS, wrap, "safe"), ("delegate", DELEGATE, self.delegate, "safe")]
        return define_extension(name="work", tools=[
            define_tool(name=name, parameters=schema, execute=execute, replay=replay)
            for name, schema, execute, replay in tools])
